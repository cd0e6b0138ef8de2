#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "sotto/core/options.h"
#include "sotto/task/metric.h"

namespace sotto {

struct EvalOptions {
  std::string model_dir;
  std::string data;             // empty: the run's, as its config.toml says
  std::string data_dir;         // empty: the run's
  std::int64_t test_size = -1;  // -1: the run's; 0: all
  std::int64_t batch_size = 1000;
  bool follow = false;
  double poll = 10;  // seconds
  void visit(OptionVisitor& v);
};

struct EvalLine {
  std::uint64_t step = 0;
  Metrics metrics;
};

// Evaluates every model_step_N of the folder in order of N and reports each. With `follow` it goes on looking for new
// ones until `keep_going` says no. ConfigError when there is none and it does not follow; FileError for a damaged one.
void evaluate_folder(const EvalOptions& options, const std::function<void(const EvalLine&)>& report,
                     const std::function<bool()>& keep_going);

}  // namespace sotto
