#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/server/links.h"
#include "sotto/algorithm/server/server_note.h"
#include "sotto/algorithm/server/server_plan.h"
#include "sotto/algorithm/step_thread.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// A rank's side of the exchange between workers and servers. Owns the mailboxes of both sides: one for messages to
// servers, one for answers to workers.
class ServedWorker {
 public:
  // Collective. `down` is the codec of models.
  ServedWorker(const ServerPlan& plan, const AlgorithmOptions& options, const StageSpecs& down,
               std::span<const BucketPlan> buckets, std::span<const Shard> shards, Communicator& communicator);

  // Computes the gradient, sends it to the servers and takes their models.
  void step(Worker& worker, Step& now);
  // Replaces step() on a rank that only serves.
  void end_idle_step(Step& now);
  // Waits until all ranks rest; `step` is the one that comes next.
  void rest(std::uint64_t step);
  // All ranks stopped, and now continue. REQUIRES drain().
  void go_on() { stop_ = ServerNote::never; }
  // Closes the mailboxes. REQUIRES drain().
  void leave() noexcept;

  Mailbox& requests() { return *requests_; }
  Mailbox& replies() { return *replies_; }
  std::uint64_t made_steps() const { return made_; }  // of all workers, as far as this one has heard
  Traffic traffic() const;
  void visit_state(StateVisitor& visitor);
  // The next gradients are taken at these versions of the servers' models.
  void follow(std::span<const std::uint64_t> versions) { versions_.assign(versions.begin(), versions.end()); }

 private:
  void send(std::size_t bucket);
  void tell(int server, ServerNote note);
  // Takes `answers` answers of this kind, at most one from each server, and skips ServerNote::Kind::waiting. WireError
  // names the sender; CommError names a silent server.
  template <class Take>
  void hear(std::size_t answers, std::uint64_t step, ServerNote::Kind kind, Take&& take);
  void note_end(Step& now) const;

  ServerPlan plan_;
  AlgorithmOptions options_;
  Communicator& communicator_;
  std::span<const Shard> shards_;
  std::vector<BucketPlan> buckets_;
  std::vector<int> owner_;    // server of each bucket
  std::vector<int> servers_;  // whose client this rank is: all; if it only serves, the first one and itself
  Uplink uplink_;
  Downlink downlink_;
  std::unique_ptr<Mailbox> requests_, replies_;
  std::vector<std::uint64_t> versions_;  // of this rank's copy of each server's model
  std::vector<bool> heard_;              // which servers have answered
  std::uint64_t stop_ = ServerNote::never;
  std::uint64_t made_ = 0;
  Worker* worker_ = nullptr;
  Step* now_ = nullptr;
  BucketThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace sotto
