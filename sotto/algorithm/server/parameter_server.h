#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

struct ServerOptions {
  std::string mode = "sync";
  std::int64_t servers = 1;
  bool dedicated = false;
  std::int64_t gradients = 0;
  std::string late = "drop";
  std::int64_t bound = 4;
  std::string count = "all";
  std::optional<std::string> down;
  std::optional<StageSpecs> down_stages{};  // what `down` says, from read_parameter_server()
  void visit(OptionVisitor& v) {
    v.option("mode", mode, "whether updates wait for all workers, for none, or for those far behind",
             {"sync", "async", "stale"});
    v.option("servers", servers, "ranks that serve, the first ones; each owns a share of the buckets", {1, 65535});
    v.option("dedicated", dedicated, "servers do nothing else; the other ranks share out the data");
    v.option("gradients", gradients, "sync: workers whose gradients make an update; 0: all", {0, 65535});
    v.option("late", late, "sync: what becomes of a gradient that comes after the update", {"drop", "carry"});
    v.option("bound", bound, "stale: steps that a worker may be ahead of the slowest", {0, 1e9});
    v.option("count", count, "steps that end a run, where workers do not wait: of all of them together, or of each",
             {"all", "each"});
    v.option("down", down, "codec of models: qsgd(bits=4), (topk(0.1) | f16); auto: that of gradients, or f32");
  }
  std::string problem() const;
};

// Workers send gradients to servers. Each server owns some buckets, takes the optimiser's steps for them, and sends the
// model back; both ways are coded (Li et al., OSDI 2014). In mode `sync` an update is the mean of the gradients of
// `gradients` workers, taken at the same model. In `async` each gradient makes an update as it comes (Dean et al.,
// NeurIPS 2012). In `stale`, too, but no worker is more than `bound` steps ahead of the slowest (Ho et al., NeurIPS
// 2013).
std::unique_ptr<Algorithm> make_parameter_server(const ServerOptions& own, const AlgorithmOptions& options,
                                                 std::span<const BucketPlan> buckets, Communicator& communicator);
AnyOptions read_parameter_server(const AnyOptions& own);
// Elastic in mode `sync` if each update is of all workers and servers are not dedicated; in other modes if workers
// count together.
OptionTraits parameter_server_with(const AnyOptions& own);
// Dedicated servers are idle. Workers are in step if every update has the gradients of all of them.
Roles parameter_server_roles(const AnyOptions& own, int ranks);

}  // namespace sotto
