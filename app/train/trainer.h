#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/train/options/choices.h"
#include "sotto/comm/world.h"

namespace sotto {

// How a run ended, on any rank; summary.json has the same numbers.
struct TrainResult {
  int signal = 0;  // SIGINT, SIGTERM or SIGUSR1 if it ended the run early (after a checkpoint), else 0
  std::uint64_t steps = 0;
  Metrics tested;  // on the test examples
  std::string train_dir;
};

// One rank's whole run: meets the others, trains, evaluates, writes checkpoints and records. Meanwhile SIGINT, SIGTERM
// and SIGUSR1 are handled: the step is finished, a checkpoint is written, and all ranks return together. Rank 0 reports
// progress on stderr: under our launcher as lines that end in '\r' (the launcher decides how to show them), otherwise
// as plain lines every few seconds.
TrainResult train(const Choices& choices, const World& world);

// What each rank would send in a step, or in a period of an algorithm that exchanges only now and then. Nothing is
// estimated: made-up gradients of the model's layout go through the whole method, between threads of this process. The
// first period is not counted, since a first step may measure. Whatever a run would refuse is refused. At most 64
// ranks.
struct DryRun {
  std::size_t parameters = 0;
  std::size_t buckets = 0;
  std::string data_report;  // Task::data_report()
  std::string aggregator;
  std::string remark;                     // why that aggregator
  std::string phases_remark;              // RunPlan::remark
  std::vector<std::string> warnings;      // as a run has
  std::vector<std::uint64_t> bytes_sent;  // per rank, in `period` steps:
  bool bytes_vary = false;                // they depend on the values of gradients, which were drawn at random
  std::uint64_t period = 1;
  std::uint64_t exchanges = 1;    // steps in the period that send anything
  std::uint64_t dense_bytes = 0;  // of an uncompressed all-reduce, per rank
  std::uint64_t first_step = 0;   // the first step that sends this; dense or warm-up steps come before
  bool only_dense = false;        // the run ends before `first_step`
};
DryRun dry_run(const Choices& choices);

// ConfigError if a run would refuse these choices. No step is tried. With more than 64 ranks, nothing is checked.
void require_trainable(const Choices& choices);

}  // namespace sotto
