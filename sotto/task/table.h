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

// What a task is made of.
struct TaskSetup {
  std::string model{};
  DataOptions data{};
  std::uint64_t seed = 1;                 // of the initial parameters and of the order of the examples
  Share share{};                          // this rank's, of the examples of each step
  std::size_t batch = 64;                 // examples at a position; 0: evaluates only, and reads no training data
  std::size_t test_batch = 1000;          // examples at a time when evaluating
  std::size_t prefetch = 2;               // batches that are read ahead
  std::string_view model_from = "model";  // where the name of the model was said, for errors
};

// With what a model is usually trained.
struct ModelDefaults {
  double lr = 0, momentum = 0;
};

// A line of the table of tasks.
struct TaskEntry {
  std::string_view name;
  std::string_view summary;
  std::span<const Metric> metrics;
  std::string_view goal;    // the name of one of them
  std::string (*models)();  // a line for each model, for help
  // Of the model of this name. ConfigError, about `model`, where there is none.
  ModelDefaults (*defaults)(std::string_view model);
  // ConfigError or FileError for what model, data or share cannot be. Ranks need not have met.
  std::unique_ptr<Task> (*make)(const TaskSetup& setup);
};
const Table<TaskEntry>& task_table();

}  // namespace sotto
