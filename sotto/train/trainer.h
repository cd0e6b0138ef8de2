#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/comm/world.h"
#include "sotto/train/choices.h"

namespace sotto {

// How a run ended, on any rank; the same numbers stand in summary.json.
struct TrainResult {
  int signal = 0;  // SIGINT, SIGTERM or SIGUSR1 when that ended it early (after a checkpoint), else 0
  std::uint64_t steps = 0;
  Metrics tested;  // of the test examples
  std::string train_dir;
};

// One rank's whole run: meets the others, trains, evaluates, checkpoints, records. SIGINT
// and SIGTERM are handled while it runs: the step is finished, a checkpoint written, and all ranks return together.
// Rank 0 reports progress on stderr as lines that end in '\r' when our launcher started it (which shows them as it sees
// fit), else as plain lines every few seconds.
TrainResult train(const Choices& choices, const World& world);

// What one step would send from each rank, or the period of an algorithm that exchanges now and then: made gradients of
// the model's layout go through the whole method (twice, since a first step may measure), between threads of this
// process; nothing is estimated, and what a run would refuse is refused. At most 64 ranks.
struct DryRun {
  std::size_t parameters = 0;
  std::size_t buckets = 0;
  std::string aggregator;
  std::string remark;                     // why that one
  std::string phases_remark;              // RunPlan::remark
  std::string doubt;                      // RunPlan::doubt()
  std::vector<std::uint64_t> bytes_sent;  // a rank, in so many steps:
  std::uint64_t period = 1;
  std::uint64_t exchanges = 1;    // steps of these that send anything
  std::uint64_t dense_bytes = 0;  // of an uncompressed all-reduce, a rank
  std::uint64_t first_step = 0;   // that sends so: before it come dense ones, or those of a warm-up
  bool only_dense = false;        // the run ends before that
};
DryRun dry_run(const Choices& choices);

}  // namespace sotto
