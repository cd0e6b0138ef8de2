#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/communicator.h"
#include "sotto/train/checkpoint.h"
#include "sotto/train/folder_lock.h"
#include "sotto/train/options.h"
#include "sotto/train/replica.h"

namespace sotto {

// A name that no other run has: "runs/lenet-20261121-051900-4711". Two that begin in one second differ in the process.
std::string new_run_folder(std::string_view name);

// The folder of one run, which all ranks share. Every member function is collective.
class RunFolder {
 public:
  // Rank 0 chooses, makes, locks and checks the folder. Without --resume a folder that holds a run is a ConfigError;
  // with it, `start_step` is that of the newest checkpoint (0 when there is none yet). A folder in which another run is
  // at work is a ConfigError, too.
  RunFolder(const TrainOptions& options, Communicator& communicator);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t start_step() const { return start_step_; }
  // Of the model that was saved last, on rank 0.
  const std::string& parameters_sha256() const { return parameters_sha256_; }

  // Writes config.toml, and prepares steps.csv: once it is sure that this run goes ahead.
  void begin();

  // NumericError when a parameter is not finite: no run could go on from there. Writes model_step_N, whole or not at
  // all: `steps_done` steps have been applied.
  void save(std::uint64_t steps_done, Replica& replica, Algorithm& algorithm, const checkpoint::Metadata& identity);
  // Reads the checkpoint of start_step(). ConfigError when it is of another model, codec, number of ranks, ...: what
  // `identity` says; FileError when it is damaged.
  void load(Replica& replica, Algorithm& algorithm, const checkpoint::Metadata& identity);

 private:
  void choose();
  void write_parts(const std::filesystem::path& partial, std::uint64_t steps_done, Replica& replica,
                   Algorithm& algorithm, const checkpoint::Metadata& identity);

  TrainOptions options_;
  std::optional<FolderLock> lock_;  // rank 0's
  Communicator& communicator_;
  std::filesystem::path path_;
  std::uint64_t start_step_ = 0;
  bool replicated_;
  std::string parameters_sha256_;
  std::optional<std::uint64_t> saved_;  // the step of the newest checkpoint
};

}  // namespace sotto
