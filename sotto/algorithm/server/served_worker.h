#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/bucket_thread.h"
#include "sotto/algorithm/server/downlink.h"
#include "sotto/algorithm/server/server_note.h"
#include "sotto/algorithm/server/server_plan.h"
#include "sotto/algorithm/server/shard.h"
#include "sotto/algorithm/server/uplink.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// A rank's side of what workers and servers tell each other. Has the mailboxes of both: to servers, and to workers.
class ServedWorker {
 public:
  // Collective. `down` is the codec of models.
  ServedWorker(const ServerPlan& plan, const AlgorithmOptions& options, const StageSpecs& down,
               std::span<const BucketPlan> buckets, std::span<const Shard> shards, Communicator& communicator);

  // Gradient, to the servers and back. `phases`, compute and loss of the report are filled in.
  StepReport step(Worker& worker, const StepInput& input);
  // In place of step(), of a rank that only serves: whether all stop.
  bool end_idle_step(const StepInput& input);
  // Until all ranks come to rest, with this step ahead of them.
  void rest(std::uint64_t step);
  // All stopped, and go on after all. REQUIRES rest().
  void go_on() { stop_ = ServerNote::never; }
  // Nothing is said any more. REQUIRES rest().
  void leave() noexcept;

  Mailbox& requests() { return *requests_; }
  Mailbox& replies() { return *replies_; }
  Traffic traffic() const;
  void visit_state(StateVisitor& visitor);

 private:
  void send(std::size_t bucket);
  void tell(int server, ServerNote note);
  // From servers that have not answered yet, each once; ServerNote::Kind::waiting are passed over. WireError names the
  // sender.
  template <class Take>
  void hear(std::size_t answers, std::uint64_t step, ServerNote::Kind kind, Take&& take);
  bool stops(std::uint64_t step) const { return step >= stop_; }

  ServerPlan plan_;
  AlgorithmOptions options_;
  Communicator& communicator_;
  std::span<const Shard> shards_;
  std::vector<BucketPlan> buckets_;
  std::vector<int> owner_;    // of each bucket
  std::vector<int> servers_;  // that this rank is a client of: all; where it only serves, the first one and itself
  Uplink uplink_;
  Downlink downlink_;
  std::unique_ptr<Mailbox> requests_, replies_;
  std::vector<std::uint64_t> versions_;  // of each server's model here
  std::vector<bool> heard_;              // of each server
  std::uint64_t stop_ = ServerNote::never;
  Worker* worker_ = nullptr;
  Key key_;
  StepContext step_;
  StepReport report_;    // its phases are written by the communication thread until wait()
  BucketThread thread_;  // last: it ends before what its work uses
};

}  // namespace sotto
