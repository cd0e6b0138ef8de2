#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "app/task/metric.h"
#include "app/train/options/choices.h"
#include "app/train/record/evaluations.h"
#include "app/train/record/recorder.h"

namespace sotto {

// What a listener learns before the first step of a run.
struct RunStart {
  std::filesystem::path folder;
  int rank = 0, ranks = 1;
  std::uint64_t first_step = 0;  // of this rank, since this start
  int shown = 0;                 // the rank that is shown for all: 0, unless rank 0 is a newcomer without a model
};

// What a listener learns of a step.
struct TrainedStep : StepRow {
  std::uint64_t epoch_number = 0, iteration = 0;  // the epoch, and the step's number in it
  Metrics measured;                               // of this step's batches; without values if the step was left out
};

// Takes note of one rank's run, beside the records in its folder. A FileError ends the run after a checkpoint.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void begin(const RunStart& start) = 0;
  virtual void stepped(const TrainedStep& /*row*/) {}
  // The rows of one evaluation, of both splits.
  virtual void evaluated(std::span<const EvaluationRow> rows, const TestResult& tested) = 0;
};

// The listeners that the options ask for. Called before the ranks meet, so that a ConfigError (about a port that is
// taken, say) comes in time. `may_change`: the group of ranks may change, so another rank may take the place of rank 0.
std::vector<std::unique_ptr<Listener>> make_listeners(const Choices& choices, int rank, bool may_change);

// Rank 0 writes consensus.csv, in runs whose ranks have their own models.
std::unique_ptr<Listener> make_consensus_csv(const Choices& choices);

// On the rank RunStart::shown, writes its steps and all evaluations for TensorBoard. ConfigError as
// check_tensorboard().
std::unique_ptr<Listener> make_tensorboard(const Choices& choices);

// ConfigError if a run that does not continue would add to the events of another one.
void check_tensorboard(const TrainOptions& options);

// For `csv-format=sgp`. ConfigError if the task has no accuracy, or if no file can have such a tag in its name.
void check_sgp_csv(const TrainOptions& options, const TaskEntry& task);

// Serves figures of rank 0 for Prometheus, as text at http://127.0.0.1:PORT/metrics, until the run ends. ConfigError if
// the port is taken.
std::unique_ptr<Listener> make_metrics_page(const Choices& choices);

}  // namespace sotto
