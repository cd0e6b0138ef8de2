#include "app/train/trainer.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "adapters/c10d/compute_threads.h"
#include "app/train/group_membership.h"
#include "app/train/run_log.h"
#include "app/train/session.h"
#include "app/train/stop_signal.h"
#include "app/train/training_loop.h"
#include "sotto/comm/group/heartbeat.h"
#include "sotto/comm/group/membership.h"

namespace sotto {
namespace {

// Trains with one group of ranks. With `rollback`, a CommError does not end the run: the next call with the same
// `rollback` continues it with another group. With `heartbeat`, ranks may also leave and join while no rank is lost.
TrainResult train_in_group(const Choices& choices, const World& world, Rollback* rollback = nullptr,
                           Heartbeat* heartbeat = nullptr) {
  Session session(with_groups(choices, world), world, rollback);
  RunLog log(session, rollback != nullptr);
  GroupMembership group(session, log, rollback, heartbeat);
  TrainingLoop loop(session, log, group);
  session.meet();
  return loop.run();
}

void resume_if_there(TrainOptions& options) {
  std::error_code missing;
  options.resume = std::filesystem::is_directory(options.train_dir, missing);
}

// For a rank that waits for others which may never come: it writes a checkpoint by itself. `why`: the reason that they
// may not come.
void save_alone(Choices choices, const World& world, Rollback& rollback, const std::string& why) {
  if (!rollback.last()) return;
  World alone;
  alone.starter = world.starter;
  alone.elastic = alone.alone = true;
  alone.id = world.id;
  alone.generation = world.generation + 1;
  alone.failure = why;
  choices.options.transport.relay.clear();  // there is nobody to be reached
  resume_if_there(choices.options);
  const auto say = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  try {
    train_in_group(choices, alone, &rollback);
  } catch (const EndedWithCheckpoint& ended) {
    say(ended.what());
  } catch (const ConfigError& error) {
    say("no checkpoint was written: " + error.text(choices.spelling));
  } catch (const std::exception& error) {
    say(std::string("no checkpoint was written: ") + error.what());
  }
}

// Trains in generations, of which the first has the number 1. Each continues where the previous one ended. `heartbeat`:
// null if the changes of the group are planned, as in a replay.
TrainResult train_in_generations(Choices choices, World world, Heartbeat* heartbeat) {
  Rollback rollback;
  const auto place = join_generation(world, StopSignal::caught);
  if (!place) {
    std::fprintf(stderr, "the run has come to its end without this rank\n");
    TrainResult result;
    result.train_dir = choices.options.train_dir;
    return result;
  }
  world = *place;
  for (;;) {
    if (world.generation > 1) resume_if_there(choices.options);
    if (heartbeat != nullptr) heartbeat->enter(world.generation);
    std::string reason;
    const bool is_new = !rollback.last();
    const std::uint64_t before = rollback.begun();
    try {
      return train_in_group(choices, world, &rollback, heartbeat);
    } catch (const Stopped&) {
      throw;
    } catch (const CommError& error) {
      if (world.planned() && dynamic_cast<const GroupChange*>(&error) == nullptr) throw;
      reason = error.what();
    } catch (const ConfigError& error) {  // other ranks have other options: only possible with a coordinator
      if (!world.failure.empty()) {       // too few ranks are left for this method
        throw Error(world.failure + "; no checkpoint was written: " + error.text(choices.spelling));
      }
      const bool came_first = rollback.last().has_value();
      if (!world.coordinated || !came_first) throw;
      reason = error.what();
    } catch (const Error& error) {
      const int signal = StopSignal::caught();
      if (world.failure.empty() || signal == 0) throw;
      if (world.rank == 0) std::fprintf(stderr, "%s\n", spelled(error.what(), choices.spelling).c_str());
      throw Stopped(error.what(), signal);  // the launcher was asked to end the job
    }
    const Stop stop = world.ends_at_signal() ? StopSignal::caught : Stop();
    try {
      world = next_generation(world, reason, !is_new && rollback.begun() > before, stop);
    } catch (const Stopped&) {
      if (world.coordinated) {
        save_alone(std::move(choices), world, rollback,
                   fmt::format("rank {} was stopped while it waited for others", world.id));
      }
      throw;
    } catch (const NotWanted&) {
      throw;
    } catch (const CommError& error) {  // the job ends, or the coordinator is not heard of
      if (world.coordinated) save_alone(std::move(choices), world, rollback, error.what());
      throw;
    }
  }
}

TrainResult train_with_heartbeat(const Choices& choices, World world) {
  // A newcomer makes its task before the others wait for it, so that data that it cannot read stop this rank alone. The
  // others wait from its first heartbeat on, or, with a coordinator, since it has come.
  if (world.generation > 1) make_task(choices, {0, 1});
  // Checked in the first generation, before any rank can be lost: later ones continue in the folder that they find.
  const TrainOptions& options = choices.options;
  if (!world.coordinated && world.generation == 1 && !options.resume && !options.train_dir.empty())
    require_unused(options.train_dir);
  Heartbeat heartbeat(world);
  if (world.coordinated) {
    try {
      make_task(choices, {0, 1});
    } catch (const std::exception& error) {
      heartbeat.farewell({.words = error.what()});
      throw;
    }
  }
  try {
    TrainResult result = train_in_generations(choices, std::move(world), &heartbeat);
    heartbeat.farewell({.words = result.signal == 0 ? "" : fmt::format("it was stopped by signal {}", result.signal)});
    return result;
  } catch (const std::exception& error) {
    const bool never_trained = dynamic_cast<const ConfigError*>(&error) != nullptr;
    const bool stopped = dynamic_cast<const Stopped*>(&error) != nullptr;
    heartbeat.farewell({.failed = !never_trained && !stopped, .words = error.what()});
    throw;
  }
}

}  // namespace

TrainResult train(const Choices& choices, const World& world) {
  const std::optional<std::int64_t> threads = choices.options.threads;
  // Our launcher says in OMP_NUM_THREADS how many; other starters must do so themselves.
  if (threads && world.starter != "sotto") {
    throw ConfigError(fmt::format("{}: {} started this rank; set OMP_NUM_THREADS there instead",
                                  named("threads", std::to_string(*threads)), world.starter));
  }
  const char* const launched = std::getenv("OMP_NUM_THREADS");
  if (world.starter == "sotto" && launched != nullptr) {
    set_compute_threads(static_cast<int>(parse_int("OMP_NUM_THREADS", launched, {1, 4096})));
  }
  const StopSignal signals;
  if (world.planned()) return train_in_generations(choices, world, nullptr);
  if (world.elastic) return train_with_heartbeat(choices, world);
  return train_in_group(choices, world);
}

}  // namespace sotto
