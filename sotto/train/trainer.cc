#include "sotto/train/trainer.h"

#include <fmt/format.h>

#include <filesystem>

#include "sotto/comm/membership.h"
#include "sotto/core/error.h"
#include "sotto/train/groups.h"
#include "sotto/train/run.h"
#include "sotto/train/stop_signal.h"

namespace sotto {
namespace {

// Each generation of ranks is a Run of its own, which goes on where the one before failed.
TrainResult train_in_generations(Choices choices, World world) {
  Rollback rollback;
  if (world.generation > 0) world = join_generation(world, StopSignal::caught);
  for (;;) {
    std::error_code missing;
    if (world.generation > 0)
      choices.options.resume = std::filesystem::is_directory(choices.options.train_dir, missing);
    std::string reason;
    try {
      return Run(with_groups(choices, world), world, &rollback).run();
    } catch (const Stopped&) {
      throw;
    } catch (const CommError& error) {
      reason = error.what();
    }
    world = next_generation(world, reason, StopSignal::caught);
  }
}

}  // namespace

TrainResult train(const Choices& choices, const World& world) {
  const std::optional<std::int64_t> threads = choices.options.threads;
  // Our launcher sets the variables of OpenMP before torch can read them; other starters must do so themselves.
  if (threads && world.starter != "sotto") {
    throw ConfigError(fmt::format("{}: {} started this rank; set OMP_NUM_THREADS there instead",
                                  named("threads", std::to_string(*threads)), world.starter));
  }
  const StopSignal signals;
  if (world.elastic) return train_in_generations(choices, world);
  return Run(with_groups(choices, world), world).run();
}

}  // namespace sotto
