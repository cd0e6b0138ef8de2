#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/task/metric.h"
#include "sotto/core/options.h"

namespace sotto {

struct EvalOptions {
  std::string model_dir;
  std::optional<std::string> data;        // auto: as in the run's config.toml
  std::optional<std::string> data_dir;    // auto: as in the run
  std::optional<std::int64_t> test_size;  // auto: as in the run; 0: all
  std::int64_t batch_size = 1000;
  std::string texts;  // folder for Task::texts() of the test data; empty: none are written
  bool follow = false;
  double poll = 10;  // seconds
  void visit(OptionVisitor& v);
};

struct EvalLine {
  std::uint64_t step = 0;
  Metrics metrics;
  std::vector<std::string> remarks{};  // Task::remarks(), once for each task that is made
  std::string problem{};               // what is damaged, so that there are no metrics; or empty
};

// Hears after each batch how many test examples of a checkpoint are evaluated.
using EvalProgress = std::function<void(std::uint64_t step, std::uint64_t examples, std::uint64_t of)>;

// Evaluates every model_step_N of the folder in order of N and reports each. With `follow`, it keeps looking for new
// checkpoints. Damaged ones are reported, too. It ends when `keep_going` returns false, and does not report a
// checkpoint whose evaluation this cuts short. ConfigError if there is no checkpoint and `follow` is not set.
void evaluate_folder(const EvalOptions& options, const std::function<void(const EvalLine&)>& report,
                     const EvalProgress& progress, const std::function<bool()>& keep_going);

}  // namespace sotto
