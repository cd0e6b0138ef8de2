#include "sotto/train/trainer.h"

#include <fmt/format.h>

#include "sotto/core/error.h"
#include "sotto/train/groups.h"
#include "sotto/train/run.h"

namespace sotto {

TrainResult train(const Choices& choices, const World& world) {
  const std::optional<std::int64_t> threads = choices.options.threads;
  // Our launcher sets the variables of OpenMP before torch can read them; other starters must do so themselves.
  if (threads && world.starter != "sotto") {
    throw ConfigError(fmt::format("{}: {} started this rank; set OMP_NUM_THREADS there instead",
                                  named("threads", std::to_string(*threads)), world.starter));
  }
  return Run(with_groups(choices, world), world).run();
}

}  // namespace sotto
