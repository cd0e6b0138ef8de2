// Writing the checkpoints of a run folder, and removing old ones.
#include <fmt/format.h>

#include <cmath>

#include "app/train/folder/run_folder.h"
#include "sotto/aggregate/aggregate.h"
#include "sotto/core/state_file.h"

namespace sotto {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t clock_kept = 2;
constexpr std::uint64_t newest_of_all = ~std::uint64_t{0};
constexpr std::size_t hash_digits = 64;

void require_finite_parameters(Task& task, int rank, std::uint64_t steps_done) {
  const auto parameters = task.parameters();
  const auto bad = std::ranges::find_if(parameters, [](float value) { return !std::isfinite(value); });
  if (bad == parameters.end()) return;
  throw NumericError(fmt::format("rank {}: parameter {} holds {} after step {}; the last checkpoint is as it was", rank,
                                 task.layout().name_at(static_cast<std::size_t>(bad - parameters.begin())), *bad,
                                 steps_done));
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw FileError(from.string() + ": cannot be renamed: " + error.message());
}

void remove_whole(const fs::path& train_dir, std::uint64_t step) {
  const fs::path doomed = checkpoint::partial_folder(train_dir, step);
  rename_or_fail(checkpoint::folder(train_dir, step), doomed);  // so that no half-removed folder keeps the final name
  fs::remove_all(doomed);
}

// Removes checkpoints that need not be kept, and all of steps after `newest`. Others that cannot be read stay.
void remove_old(const fs::path& train_dir, std::optional<std::uint64_t> best, std::uint64_t newest) {
  std::size_t newer = 0;
  auto steps = checkpoint::find(train_dir);
  std::ranges::reverse(steps);
  for (const std::uint64_t step : steps) {
    const fs::path folder = checkpoint::folder(train_dir, step);
    try {
      if (step > newest) {
        remove_whole(train_dir, step);
        continue;
      }
      const Kept kept = Manifest::of_text(read_manifest_text(folder)).kept;
      if (kept == Kept::always || (kept == Kept::by_clock && ++newer <= clock_kept)) continue;
      if (step == best || (kept == Kept::as_best && !best)) continue;
      remove_whole(train_dir, step);
    } catch (const FileError&) {             // NOLINT(bugprone-empty-catch)
    } catch (const fs::filesystem_error&) {  // NOLINT(bugprone-empty-catch): the next save tries again
    }
  }
}

}  // namespace

// The content of the model file, which all ranks share and compute together.
struct RunFolder::Shared {
  const Layout &layout, &buffer_layout;
  std::vector<float> buffers;
  MeanModel mean;                     // of ranks with their own models
  std::span<const float> parameters;  // the parameters to evaluate
};

// Whether the model file has other parameters than those that this rank trains.
bool RunFolder::own_parameters(Replica& replica) const { return !replicated_ || !replica.to_evaluate().empty(); }

std::string RunFolder::run() const { return fmt::format("{:016x}", run_); }

void RunFolder::start_from(const Manifest& manifest) {
  start_step_ = manifest.step;
  run_ = std::strtoull(manifest.run.c_str(), nullptr, 16);
}

void RunFolder::go_back_to(const Manifest& manifest) {
  start_from(manifest);
  went_back_ = true;
}

std::string RunFolder::own_file() const { return checkpoint::rank_file(communicator_.rank()); }

void RunFolder::save(Manifest manifest, std::optional<std::uint64_t> best, Replica& replica, Algorithm& algorithm,
                     RunTotals totals) {
  Task& task = replica.task();
  require_finite_parameters(task, communicator_.rank(), manifest.step);
  const fs::path partial = checkpoint::partial_folder(path_, manifest.step);
  const bool first = communicator_.rank() == 0;
  manifest.run = run();
  on_first("make a folder for the checkpoint", [&] {
    require_lock();
    checkpoint::remove_partial(path_);
    make_folder(partial);
  });

  Shared shared{task.layout(), task.buffer_layout(), {task.buffers().begin(), task.buffers().end()}, {}, {}};
  aggregate(shared.buffers, Op::avg, communicator_);
  const std::span<const float> other = replica.to_evaluate();
  shared.parameters = other.empty() ? task.parameters() : other;
  if (!replicated_) {
    shared.mean = mean_model(shared.parameters, communicator_);
    shared.parameters = shared.mean.parameters;
  }
  try {
    files_.run("write its part of the checkpoint", [&] {
      write_own(partial, manifest, replica, algorithm, totals);
      if (first) write_shared(partial, manifest, shared);
    });
    gather_parts(manifest);
    on_first("write the checkpoint", [&] { publish(partial, manifest, best); });
  } catch (const FileError&) {  // only then: after a CommError others may still be writing there
    if (first && !lock_->lost()) checkpoint::remove_partial(path_);
    throw;
  }
}

void RunFolder::write_own(const fs::path& partial, Manifest& manifest, Replica& replica, Algorithm& algorithm,
                          RunTotals totals) {
  ThreadPool pool(static_cast<int>(options_.codec_threads));
  StateWriter own(partial / own_file(), part_text(manifest, own_file()), pool);
  totals.visit_state(own);
  own.add("buffers", replica.task().buffers());
  if (own_parameters(replica)) own.add("parameters", replica.task().parameters());
  replica.visit_state(own);
  replica.visit_trained(own);
  algorithm.visit_state(own);
  manifest.parts[own_file()] = own.finish();
}

void RunFolder::write_shared(const fs::path& partial, Manifest& manifest, const Shared& shared) {
  ThreadPool pool(static_cast<int>(options_.codec_threads));
  write_model_file(partial, manifest, {shared.layout, shared.parameters}, {shared.buffer_layout, shared.buffers}, pool);
  parameters_sha256_ = block_hash(std::as_bytes(shared.parameters), pool);
}

// Collects the hashes of all ranks' parts.
void RunFolder::gather_parts(Manifest& manifest) {
  const std::string own = manifest.parts.at(own_file());
  std::string all(hash_digits * static_cast<std::size_t>(communicator_.size()), '\0');
  communicator_.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    manifest.parts[checkpoint::rank_file(rank)] = all.substr(hash_digits * static_cast<std::size_t>(rank), hash_digits);
  }
}

// Gives a complete checkpoint its manifest and its final name.
void RunFolder::publish(const fs::path& partial, const Manifest& manifest, std::optional<std::uint64_t> best) {
  for (const auto& [name, hash] : manifest.parts) {
    if (!fs::exists(partial / name)) {
      throw FileError((partial / name).string() + ": missing; the run folder must be one that all ranks share");
    }
  }
  require_lock();
  write_manifest(partial, manifest);
  fsync_path(partial);
  const fs::path name = checkpoint::folder(path_, manifest.step);
  const fs::path replaced = fs::path(name) += ".replaced.tmp";
  if (fs::exists(name)) rename_or_fail(name, replaced);  // an incomplete checkpoint that was passed over
  rename_or_fail(partial, name);
  fsync_path(path_);
  std::error_code ignored;
  fs::remove_all(replaced, ignored);
  remove_old(path_, best, went_back_ ? manifest.step : newest_of_all);
}

void RunFolder::remove_superseded(std::uint64_t best) {
  on_first("remove older checkpoints", [&] {
    require_lock();
    remove_old(path_, best, newest_of_all);
  });
}

std::string RunFolder::name_of(std::uint64_t step) const {
  const fs::path folder = checkpoint::folder(path_, step);
  std::error_code missing;
  return fs::is_directory(folder, missing) ? folder.filename().string() : "";
}

}  // namespace sotto
