#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "sotto/comm/emulated/links.h"

namespace sotto {

// The cost of the software below a link: the time until a message has arrived over a link without limits.
struct HostCost {
  double message = 0;  // seconds
  double byte = 0;     // and for each byte

  double of(std::size_t bytes) const { return message + byte * static_cast<double>(bytes); }
};

// A stretch of a rank's own work, and the exchange that follows it.
struct TracedExchange {
  double work = 0;                                 // seconds
  std::vector<std::pair<int, std::size_t>> sends;  // peer and bytes of each message
  std::vector<int> receives;                       // the peer of each message
};

// What a rank did for a bucket: it worked and exchanged in turns, and worked at last.
struct Trace {
  std::vector<TracedExchange> exchanges;
  double rest = 0;  // seconds
};

// How long a rank computes in a step, in seconds.
struct ComputeTimes {
  std::vector<double> ready;  // of each bucket: since the bucket before it was ready, or since the step began
  double rest = 0;            // after the last bucket was ready
  double apply = 0;           // the optimiser's step, which follows all exchanges

  double total() const;
};

// The record of a rank's communication thread in a step.
struct RankTrace {
  Trace agreement;             // whether to stop; begins with the step
  std::vector<Trace> buckets;  // each begins when its bucket is ready, and those before it are done
};
using StepTrace = std::vector<RankTrace>;  // by rank

// Shares of the measured speed at which a rank goes: when it computes alone, when its communication thread works alone,
// and when it does both. Less than 1 where there are fewer cores than threads.
struct Speeds {
  double computing = 1, working = 1, both = 1;
};
Speeds speeds_of(double cores, double compute_threads, double codec_threads);

struct Replayed {
  double seconds = 0;  // of a step
  double waiting = 0;  // of it: after computing, for exchanges
};

// Replays these steps over other links, in the order of `sync`: each rank works as long as it did, and sends the
// messages that it sent. The links behave as `shaped` does, to the nanosecond, and may slow down a rank's computing. A
// message arrives later by its cost below the link (HostCost). Returns means over all steps but the first, which only
// fills the links; for a single step, its times.
Replayed replay(const ComputeTimes& compute, std::span<const StepTrace> steps, const Links& links,
                const Speeds& speeds = {}, const HostCost& host = {});

}  // namespace sotto
