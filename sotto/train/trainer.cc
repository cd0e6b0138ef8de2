#include "sotto/train/trainer.h"

#include <fmt/format.h>

#include "sotto/core/error.h"
#include "sotto/train/groups.h"
#include "sotto/train/run.h"

namespace sotto {

TrainResult train(const TrainOptions& options, const World& world) {
  // Our launcher sets the variables of OpenMP before torch can read them; another starter must do so itself.
  if (options.threads > 0 && world.starter != "sotto") {
    throw ConfigError(fmt::format("--threads {}: {} started this rank; set OMP_NUM_THREADS there instead",
                                  options.threads, world.starter));
  }
  return Run(with_groups(options, world), world).run();
}

}  // namespace sotto
