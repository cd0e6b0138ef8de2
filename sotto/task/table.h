#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sotto/core/table.h"
#include "sotto/data/options.h"
#include "sotto/task/metric.h"
#include "sotto/task/task.h"

namespace sotto {

// What make() needs to make a task.
struct TaskSetup {
  std::string model{};
  DataOptions data{};
  std::uint64_t seed = 1;                 // of the initial parameters and of the order of the examples
  Share share{};                          // this rank's share of the examples of each step
  std::size_t batch = 64;                 // examples per position; 0: evaluates only, and reads no training data
  std::size_t test_batch = 1000;          // examples per batch of an evaluation
  std::size_t prefetch = 2;               // batches that are read ahead
  std::string_view model_from = "model";  // the option that gave the model's name, for errors
};

// The usual settings for training a model.
struct ModelDefaults {
  double lr = 0, momentum = 0;
};

// A line of the table of tasks.
struct TaskEntry {
  std::string_view name;
  std::string_view summary;
  std::span<const Metric> metrics;
  std::string_view goal;    // the name of the metric that Task::goal() returns
  std::string (*models)();  // a line for each model, for help
  // The defaults of a model by name. ConfigError, about the option `model`, when the name is unknown.
  ModelDefaults (*defaults)(std::string_view model);
  // ConfigError or FileError for a model, data or share that cannot be used. Needs no connection between the ranks.
  std::unique_ptr<Task> (*make)(const TaskSetup& setup);
};
const Table<TaskEntry>& task_table();

}  // namespace sotto
