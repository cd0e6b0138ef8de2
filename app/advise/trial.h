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

// The record of a trial, in which a method's real code averaged the gradients of some ranks. The ranks were threads of
// this process, and worked one at a time.
struct TriedMethod {
  std::vector<StepTrace> steps;
  double bytes_sent = 0;      // per step, by the rank that sends most
  double relative_error = 0;  // |result - mean| / |mean| in the last step; with a memory, in the first one
  std::string aggregator, remark;
};

struct TrialOptions {
  int ranks = 2;
  int codec_threads = 1;
  double lr = 0;
  std::uint64_t seed = 1;
  std::size_t steps = 3;  // the steps that are kept; in one more before them, aggregators choose and warm up
  std::chrono::milliseconds deadline{std::chrono::minutes(10)};
};

// ConfigError if the method does not suit these buckets, NumericError for a gradient that it cannot send.
TriedMethod try_method(const Recipe& recipe, const MeasuredCompute& compute, const TrialOptions& options);

// Replaces the time of each piece of work by its median over the steps, so that other programs on this machine do not
// count. Steps that exchange differently from the first one keep their times.
void smooth(std::vector<StepTrace>& steps);

// Of the ranks that share a turn, only the holder works. It is therefore as fast as if it had the machine alone. A rank
// that waits for others does not hold the turn.
using Turn = std::binary_semaphore;

// Records the exchanges of a rank, and its work between them. Exchanges go through `inner`. While this object lives,
// the rank holds the turn, except in an exchange.
class TracedCommunicator final : public Communicator {
 public:
  TracedCommunicator(Communicator& inner, Turn& turn);
  ~TracedCommunicator() override { turn_.release(); }

  std::string_view name() const override { return "traced"; }
  bool goes_in_rounds() const override { return inner_.goes_in_rounds(); }
  // The record since the last call, or since construction.
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
