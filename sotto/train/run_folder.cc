#include "sotto/train/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "sotto/aggregate/aggregate.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/hash.h"
#include "sotto/core/state_file.h"
#include "sotto/train/evaluate.h"
#include "sotto/train/optimiser.h"
#include "sotto/train/recorder.h"

namespace sotto {
namespace fs = std::filesystem;
namespace {

// What a replay of this run should do: the same, in a folder of its own.
TrainOptions replayable(TrainOptions options) {
  options.train_dir.clear();
  options.resume = false;
  options.master.clear();
  if (!options.data.data_dir.empty()) options.data.data_dir = fs::absolute(options.data.data_dir).string();
  return options;
}

void require_finite_parameters(Model& model, int rank, std::uint64_t steps_done) {
  const auto parameters = model.parameters();
  const auto bad = std::ranges::find_if(parameters, [](float value) { return !std::isfinite(value); });
  if (bad == parameters.end()) return;
  throw NumericError(fmt::format("rank {}: parameter {} holds {} after step {}; the last checkpoint is as it was", rank,
                                 model.layout().name_at(static_cast<std::size_t>(bad - parameters.begin())), *bad,
                                 steps_done));
}

std::string rank_file(int rank) { return "rank_" + std::to_string(rank); }

void check_identity(const fs::path& file, const std::string& text, const checkpoint::Metadata& wanted) {
  const checkpoint::Metadata found = checkpoint::from_text(text);
  for (const auto& [key, value] : wanted) {
    const auto there = found.find(key);
    const std::string other = there == found.end() ? "(nothing)" : there->second;
    if (other != value) {
      throw ConfigError(
          fmt::format("--resume {}: it was written with {} {}, this run has {}; use the same, or another "
                      "--train-dir",
                      file.string(), key, other, value));
    }
  }
}

// Gives a complete checkpoint its name.
void publish(const fs::path& partial, const fs::path& name, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (!fs::exists(partial / rank_file(rank))) {
      throw FileError((partial / rank_file(rank)).string() +
                      ": missing; --train-dir must be a folder that all ranks share");
    }
  }
  fsync_path(partial);
  std::error_code error;
  fs::rename(partial, name, error);
  if (error) throw FileError(partial.string() + ": cannot be renamed: " + error.message());
  fsync_path(name.parent_path());
}

}  // namespace

std::string new_run_folder(std::string_view name) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("runs/{}-{:%Y%m%d-%H%M%S}-{}", name, fmt::localtime(now), ::getpid());
}

RunFolder::RunFolder(const TrainOptions& options, Communicator& communicator)
    : options_(options),
      communicator_(communicator),
      replicated_(algorithm_entry("--algorithm", options.algorithm).replicated) {
  // Rank 0 decides for all, so that they agree even where clocks and folders differ. When it fails, the others learn of
  // it from an empty name and leave the message to it.
  std::array<char, 4096> name{};
  std::exception_ptr failure;
  if (communicator.rank() == 0) {
    try {
      choose();
      const std::string text = path_.string();
      if (text.size() >= name.size()) throw ConfigError("--train-dir: the path is longer than 4095 bytes");
      std::memcpy(name.data(), text.data(), text.size());
    } catch (...) {
      failure = std::current_exception();
    }
  }
  communicator.broadcast(std::as_writable_bytes(std::span(name)), 0);
  if (failure) std::rethrow_exception(failure);
  if (name[0] == '\0') throw CommError("rank 0 could not prepare the run folder");
  path_ = name.data();
  communicator.broadcast(std::as_writable_bytes(std::span(&start_step_, 1)), 0);
  if (start_step_ > 0) saved_ = start_step_;
}

void RunFolder::choose() {
  path_ = options_.train_dir.empty() ? fs::path(new_run_folder(options_.model)) : fs::path(options_.train_dir);
  std::error_code missing;
  if (options_.resume && !fs::is_directory(path_, missing)) {
    throw ConfigError("--resume: there is no folder " + path_.string());
  }
  make_folder(path_);
  lock_.emplace(path_);
  if (!lock_->held()) {
    throw ConfigError("--train-dir " + path_.string() + ": another run is at work there; choose another folder");
  }
  const auto steps = checkpoint::find(path_);
  if (options_.resume) {
    if (!steps.empty()) start_step_ = steps.back();
  } else if (fs::exists(path_ / "steps.csv", missing) || !steps.empty()) {
    throw ConfigError("--train-dir " + path_.string() +
                      ": already holds a run; --resume continues it, or choose another folder");
  }
  checkpoint::remove_partial(path_);
  remove_temporaries(path_);
}

void RunFolder::begin() {
  if (communicator_.rank() == 0) {
    const ChosenOptimiser optimiser = chosen_optimiser(options_);
    write_file_atomic(path_ / "config.toml",
                      fmt::format("{}# With these: optimiser {}, lr {}\n", to_toml(replayable(options_)),
                                  optimiser.sentence, format_double(optimiser.lr)));
    Recorder::prepare(path_, start_step_);
  }
  communicator_.barrier();
}

void RunFolder::save(std::uint64_t steps_done, Replica& replica, Algorithm& algorithm,
                     const checkpoint::Metadata& identity) {
  if (saved_ == steps_done) return;
  require_finite_parameters(replica.model(), communicator_.rank(), steps_done);
  const fs::path partial = checkpoint::partial_folder(path_, steps_done);
  const bool first = communicator_.rank() == 0;
  if (first) {
    checkpoint::remove_partial(path_);
    make_folder(partial);
  }
  communicator_.barrier();
  try {
    write_parts(partial, steps_done, replica, algorithm, identity);
    communicator_.barrier();
    if (first) publish(partial, checkpoint::folder(path_, steps_done), communicator_.size());
  } catch (...) {
    if (first) checkpoint::remove_partial(path_);
    throw;
  }
  communicator_.barrier();
  saved_ = steps_done;
}

void RunFolder::write_parts(const fs::path& partial, std::uint64_t steps_done, Replica& replica, Algorithm& algorithm,
                            const checkpoint::Metadata& identity) {
  const std::string text = checkpoint::to_text(identity);
  Model& model = replica.model();
  StateWriter own(text);
  own.add("buffers", model.buffers());
  if (!replicated_) own.add("parameters", model.parameters());
  replica.optimiser().visit_state(own);
  algorithm.visit_state(own);
  own.write(partial / rank_file(communicator_.rank()));

  std::vector<float> buffers(model.buffers().begin(), model.buffers().end());
  aggregate(buffers, Op::avg, communicator_);
  std::span<const float> parameters = model.parameters(), evaluated = replica.optimiser().to_evaluate();
  MeanModel mean, mean_evaluated;
  if (!replicated_) {
    mean = mean_model(parameters, communicator_);
    parameters = mean.parameters;
    if (!evaluated.empty()) {
      mean_evaluated = mean_model(evaluated, communicator_);
      evaluated = mean_evaluated.parameters;
    }
  }
  if (communicator_.rank() != 0) return;
  StateWriter shared(text);
  shared.add("parameters", parameters);
  shared.add("buffers", buffers);
  if (!evaluated.empty()) shared.add(checkpoint::evaluated_parameters, evaluated);
  shared.visit("steps", steps_done);
  shared.write(partial / "model");
  parameters_sha256_ = sha256_hex(std::as_bytes(parameters));
}

void RunFolder::load(Replica& replica, Algorithm& algorithm, const checkpoint::Metadata& identity) {
  const fs::path folder = checkpoint::folder(path_, start_step_);
  Model& model = replica.model();
  StateReader shared(folder / "model");
  check_identity(folder / "model", shared.text(), identity);
  std::vector<float> mean_buffers, evaluated;  // by others alone
  std::uint64_t steps = 0;
  shared.get("parameters", model.parameters());
  shared.visit("buffers", mean_buffers);
  if (shared.has(checkpoint::evaluated_parameters)) shared.visit(checkpoint::evaluated_parameters, evaluated);
  shared.visit("steps", steps);
  shared.finish();
  if (steps != start_step_) {
    throw FileError(folder.string() + ": holds step " + std::to_string(steps) + "; it was renamed by hand?");
  }

  const fs::path own_file = folder / rank_file(communicator_.rank());
  StateReader own(own_file);
  check_identity(own_file, own.text(), identity);
  own.get("buffers", model.buffers());
  if (!replicated_) own.get("parameters", model.parameters());
  replica.optimiser().visit_state(own);
  algorithm.visit_state(own);
  own.finish();
}

}  // namespace sotto
