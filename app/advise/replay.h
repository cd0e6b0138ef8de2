#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "sotto/comm/emulated/links.h"

namespace sotto {

// The cost of the software below a link: how long a message takes over a link without limits.
struct HostCost {
  double message = 0;  // seconds
  double byte = 0;     // seconds per byte, in addition

  double of(std::size_t bytes) const { return message + byte * static_cast<double>(bytes); }
};

// A stretch of a rank's own work, and the exchange after it.
struct TracedExchange {
  double work = 0;                                 // seconds
  std::vector<std::pair<int, std::size_t>> sends;  // peer and bytes of each message
  std::vector<int> receives;                       // the peer of each message
};

// What a rank did for a bucket: it worked and exchanged in turns, and ended with work (`rest`).
struct Trace {
  std::vector<TracedExchange> exchanges;
  double rest = 0;  // seconds
};

// How long a rank computes in a step, in seconds.
struct ComputeTimes {
  std::vector<double> ready;  // for each bucket: since the previous bucket was ready, or since the step began
  double rest = 0;            // after the last bucket was ready
  double apply = 0;           // the optimiser's step, which follows all exchanges

  double total() const;
};

// The record of a rank's communication thread in a step.
struct RankTrace {
  Trace agreement;             // the exchange that agrees whether to stop; it begins with the step
  std::vector<Trace> buckets;  // each begins when its bucket is ready and all earlier traces are done
};
using StepTrace = std::vector<RankTrace>;  // by rank

// The speed of a rank as a share of its measured speed: while it only computes, while only its communication thread
// works, and while both do. Less than 1 if there are fewer cores than threads.
struct Speeds {
  double computing = 1, working = 1, both = 1;
};
Speeds speeds_of(double cores, double compute_threads, double codec_threads);

struct Replayed {
  double seconds = 0;  // of a step
  double waiting = 0;  // of these: seconds of waiting for exchanges after computing
};

// Replays recorded steps over other links, in the order of `sync`. Each rank works for the recorded times, and sends
// the recorded messages. The links behave like `shaped`, to the nanosecond, and may slow down a rank's computing.
// HostCost delays each message further. Returns means over all steps but the first, which only fills the links; for a
// single step, its times.
Replayed replay(const ComputeTimes& compute, std::span<const StepTrace> steps, const Links& links,
                const Speeds& speeds = {}, const HostCost& host = {});

}  // namespace sotto
