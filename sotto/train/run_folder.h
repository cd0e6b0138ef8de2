#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/communicator.h"
#include "sotto/train/checkpoint.h"
#include "sotto/train/choices.h"
#include "sotto/train/evaluations.h"
#include "sotto/train/file_work.h"
#include "sotto/train/folder_lock.h"
#include "sotto/train/manifest.h"
#include "sotto/train/replica.h"
#include "sotto/train/run_totals.h"

namespace sotto {

// A name that no other run has: "runs/lenet-20261121-051900-4711". Two that begin in one second differ in the process.
std::string new_run_folder(std::string_view name);

// The folder of one run, which all ranks share. Every member function is collective.
class RunFolder {
 public:
  // `choices` must outlive it. Rank 0 chooses, makes, locks and checks the folder. A folder that holds a run is a
  // ConfigError, unless it is to be resumed. So is one in which another run is at work.
  RunFolder(const Choices& choices, Communicator& communicator);

  const std::filesystem::path& path() const { return path_; }
  // To resume: chooses the newest checkpoint whose parts are all whole; `start_step` is 0 when there is none yet.
  // Returns a line for each newer one that is not whole, which says why. FileError when none is whole; ConfigError when
  // the newest one is of another model, codec, number of ranks, ...: what `identity` says.
  std::vector<std::string> choose_checkpoint(const checkpoint::Metadata& identity);
  std::uint64_t start_step() const { return start_step_; }
  // Why another run could write here beside this one, on rank 0; empty: it cannot.
  std::string lock_doubt() const { return lock_ ? lock_->doubt() : ""; }
  // block_hash() of the model that was saved last, on rank 0.
  const std::string& parameters_sha256() const { return parameters_sha256_; }

  // Once it is sure that this run goes ahead: writes config.toml, and prepares steps.csv, in which each rank goes on
  // from that step of its own, and evaluations.csv, of which it returns the rows until start_step().
  std::string begin(std::span<const std::uint64_t> first_steps, const Evaluations& evaluations);

  // NumericError when a parameter is not finite: no run could go on from there. Writes model_step_N, whole or not at
  // all: `steps_done` steps have been applied. Then removes what need not be kept any longer, but not the checkpoint of
  // the step `best`.
  void save(std::uint64_t steps_done, Kept kept, std::optional<std::uint64_t> best, Replica& replica,
            Algorithm& algorithm, RunTotals totals, const checkpoint::Metadata& identity);
  // Removes all that were kept as the best, but that of this step.
  void remove_superseded(std::uint64_t best);
  // "model_step_N", where there is a checkpoint of that step; otherwise "". Of this rank alone.
  std::string name_of(std::uint64_t step) const;
  // Reads the checkpoint of start_step(). FileError when it cannot be read.
  void load(Replica& replica, Algorithm& algorithm, RunTotals& totals);

 private:
  struct Shared;
  void choose();
  std::string verdict_on(const Manifest& manifest);
  void write_own(const std::filesystem::path& partial, Manifest& manifest, Replica& replica, Algorithm& algorithm,
                 RunTotals totals);
  void write_shared(const std::filesystem::path& partial, Manifest& manifest, const Shared& shared);
  void gather_parts(Manifest& manifest);
  void publish(const std::filesystem::path& partial, const Manifest& manifest, std::optional<std::uint64_t> best);
  std::string own_file() const;

  const Choices& choices_;
  const TrainOptions& options_;
  std::optional<FolderLock> lock_;  // rank 0's
  Communicator& communicator_;
  std::filesystem::path path_;
  FileWork files_;
  std::uint64_t run_ = 0;  // a random number of this run, the same on all ranks
  std::uint64_t start_step_ = 0;
  bool replicated_;
  std::string parameters_sha256_;
};

}  // namespace sotto
