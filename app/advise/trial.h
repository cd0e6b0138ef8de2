#pragma once

#include <chrono>
#include <semaphore>
#include <string>
#include <string_view>
#include <vector>

#include "app/advise/measurements.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/timer.h"

namespace sotto {

// The record of a method that averaged the gradients of some ranks. Its own code did that; the ranks were threads of
// this process that worked one at a time.
struct TriedMethod {
  std::vector<StepTrace> steps;
  double bytes_sent = 0;      // a step, of the rank that sends most
  double relative_error = 0;  // |result - mean| / |mean|, of the last step; with a memory, of the first one
  std::string aggregator, remark;
};

struct TrialOptions {
  int ranks = 2;
  int codec_threads = 1;
  double lr = 0;
  std::uint64_t seed = 1;
  std::size_t steps = 3;  // that are kept; one goes before them, in which aggregators choose and warm up
  std::chrono::milliseconds deadline{std::chrono::minutes(10)};
};

// ConfigError if the method does not suit these buckets, NumericError for a gradient that it cannot send.
TriedMethod try_method(const Recipe& recipe, const MeasuredCompute& compute, const TrialOptions& options);

// The same steps with the time of each piece of work replaced by its median over the steps, so that other work on this
// machine does not count. Steps that exchange differently from the first one keep their times.
void smooth(std::vector<StepTrace>& steps);

// Among ranks that share a turn, only its holder works, and hence as fast as on a machine to itself. A rank that waits
// for others does not hold the turn.
using Turn = std::binary_semaphore;

// Records what this rank does between and in the exchanges of another communicator. The rank holds the turn as long as
// this lives.
class TracedCommunicator final : public Communicator {
 public:
  TracedCommunicator(Communicator& inner, Turn& turn);
  ~TracedCommunicator() override { turn_.release(); }

  std::string_view name() const override { return "traced"; }
  bool goes_in_rounds() const override { return inner_.goes_in_rounds(); }
  // What happened since the last call, or since this was made.
  Trace take();

 private:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override;
  std::unique_ptr<Communicator> do_clone() override;

  Communicator& inner_;
  Turn& turn_;
  Trace trace_;
  Timer working_;
};

}  // namespace sotto
