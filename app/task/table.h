#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/options.h"
#include "app/data/partition.h"
#include "app/model/model.h"
#include "app/task/metric.h"
#include "app/task/task.h"
#include "sotto/core/table.h"

namespace sotto {

// The default settings for training a model. `lr` is for this optimiser.
struct ModelDefaults {
  double lr = 0, momentum = 0;
  std::string_view optimiser = "sgd";
};

// A line of a task's table of models, with its options. Each task has its own table.
struct ModelChoice {
  std::string_view name;
  AnyOptions options{};
  Place place{};  // in the user's text
  ModelDefaults defaults{};
  std::string fingerprint{};  // of the file that makes the model; empty if sotto makes it

  // The same line in that table. REQUIRES a table that has it.
  template <class Entry>
  Spec<Entry> in(const Table<Entry>& models) const {
    return {models.find(name), options, place};
  }
};

// What make() needs to make a task.
struct TaskSetup {
  ModelChoice model{};
  DataOptions data{};
  std::uint64_t seed = 1;         // of the initial parameters and of the order of the examples
  Share share{};                  // this rank's share of the examples of each step
  PartitionSpec partition{};      // of the training examples; none: `iid`; others REQUIRE TaskEntry::has_labels
  std::size_t batch = 64;         // examples per position; 0: evaluates only, and reads no training data
  std::size_t test_batch = 1000;  // examples per batch of an evaluation
  std::string meaning{};          // Task::meaning() of the data that the model was trained on; empty: of `data`
  Precision precision = Precision::f32;
  std::size_t prefetch = 2;  // batches that are read ahead
};

// A line of the table of tasks.
struct TaskEntry {
  std::string_view name;
  std::string_view summary;
  std::span<const Metric> metrics;
  std::string_view goal;  // the name of the metric that decides which of two models is better
  std::vector<std::string_view> (*model_names)();
  std::vector<std::string_view> (*data_names)();  // the first is what `auto` means
  std::string (*models)();                        // a line for each model, and their options, for help
  // ConfigError, with a caret, for an unknown model or wrong options.
  ModelChoice (*read_model)(const Expression& expression);
  // ConfigError or FileError for a model, data or share that cannot be used. Needs no connection between the ranks.
  std::unique_ptr<Task> (*make)(const TaskSetup& setup);
  bool has_labels = false;       // examples have labels; a partition can deal examples by them
  bool takes_libraries = false;  // as models

  const Metric& goal_metric() const { return *metric_table(metrics).find(goal); }
};
const Table<TaskEntry>& task_table();

// Parses a model: a name with options, or the path of a user's library, `./mine.so(width=64)`.
Expression parse_model(std::string_view option, std::string_view model);
// The text as it is recorded: names in lower case, paths absolute.
std::string recorded_model(std::string_view model);

// The first model of the task `name`; if that is `auto`, of the first task that takes `data`. ConfigError for an
// unknown task.
std::string_view default_model(std::string_view name, std::string_view data);

// The task with this name. `auto`: the first task that has both this model and these data; if there is none, the first
// that has the model, or else the data. ConfigError for an unknown name (with a caret for a model that no task has),
// and for data that go with other models or tasks.
const TaskEntry& find_task(std::string_view name, const Expression& model, std::string_view data);

}  // namespace sotto
