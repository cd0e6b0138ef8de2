#include "sotto/train/batch_norm.h"

#include <fmt/format.h>

#include "sotto/algorithm/algorithm.h"
#include "sotto/core/error.h"

namespace sotto {

bool averages_batch_norm(const TrainOptions& options, Model& model, int ranks) {
  if (!options.average_batch_norm) return false;
  if (model.buffers().empty()) {
    throw ConfigError(fmt::format("--average-batch-norm: {} has no batch-norm statistics", options.model));
  }
  if (!all_in_step("--algorithm", options.algorithm, ranks)) {
    throw ConfigError(
        fmt::format("--average-batch-norm: `{}` has no step in which all ranks train the same model; "
                    "statistics are averaged for evaluation",
                    options.algorithm));
  }
  return true;
}

}  // namespace sotto
