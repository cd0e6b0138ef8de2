#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/train/folder/checkpoint.h"
#include "app/train/folder/folder_lock.h"
#include "app/train/options/choices.h"
#include "app/train/record/evaluations.h"
#include "app/train/replica.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/communicator.h"

namespace sotto {

// A name that needs no quotes in a shell: at most 60 letters, digits, dots and dashes. "fc(512, 10)" becomes
// "fc-512-10".
std::string plain_name(std::string_view text);

// A unique name: "runs/lenet-20261121-051900-4711". Runs that start in the same second differ in the process id.
std::string new_run_folder(std::string_view name);

// ConfigError if that folder holds a run.
void require_unused(const std::filesystem::path& folder);
// ConfigError if a run with these options could not use its folder, as far as that is known before the run begins.
void check_run_folder(const TrainOptions& options);

// File work that all ranks do at the same time. It may take much longer than an exchange, but the communicator's
// deadline is for peers, not for their disks. So a rank at work tells the others, several times within that deadline,
// that it is alive.
class FileWork {
 public:
  // The ranks wait for each other for at most `limit`.
  FileWork(Communicator& communicator, std::chrono::seconds limit) : communicator_(communicator), limit_(limit) {}

  // Collective. Runs `work` on every rank, on its own thread, and returns when all have ended. If `work` throws,
  // the exception is thrown on that rank, and a CommError with the same words on all others. CommError also if a rank
  // is not heard of within the communicator's deadline, or still works at the limit; `doing` names the work: "write the
  // checkpoint". This rank's own work has always ended when run() returns or throws.
  void run(std::string_view doing, const std::function<void()>& work);

 private:
  Communicator& communicator_;
  std::chrono::seconds limit_;
};

// Returns the text of rank `from` on all ranks. Collective.
inline std::string broadcast_text(std::string text, Communicator& communicator, int from = 0) {
  std::uint64_t size = text.size();
  communicator.broadcast(std::as_writable_bytes(std::span(&size, 1)), from);
  text.resize(size);
  communicator.broadcast(std::as_writable_bytes(std::span(text)), from);
  return text;
}

// The folder of one run, which all ranks share. Every public function is collective unless its comment says otherwise.
class RunFolder {
 public:
  // `choices` must outlive this object. Rank 0 chooses, creates, locks and checks the folder. ConfigError if the folder
  // already holds a run that is not to be resumed, or if another run is using it. In a later generation, the process
  // that uses the folder may be the lost rank 0 of an earlier generation of this run. It has ten seconds to end, then
  // the folder is taken from it. `run`: the id of this run, by which its earlier generations are known; empty: not
  // known yet.
  RunFolder(const Choices& choices, Communicator& communicator, std::uint64_t generation, const std::string& run);

  const std::filesystem::path& path() const { return path_; }
  // Throws, alike on all ranks, if this run cannot continue from a checkpoint with this manifest.
  using Check = std::function<void(const Manifest&)>;
  // To resume: chooses the newest checkpoint whose parts are all intact; start_step() is 0 if there is no checkpoint
  // yet. Returns a line for each newer checkpoint that is damaged, with the reason. FileError if no checkpoint is
  // intact.
  std::vector<std::string> choose_checkpoint(const Check& check);
  std::uint64_t newest_checkpoint();  // the step of the newest checkpoint, intact or not; 0 if there is none
  // To continue from a state in memory, which belongs to this manifest. The next save() removes checkpoints of later
  // steps, which another group made. Not collective.
  void go_back_to(const Manifest& manifest);
  std::string run() const;  // Manifest::run
  std::uint64_t start_step() const { return start_step_; }
  int written_by() const { return written_by_; }  // the number of ranks that wrote the chosen checkpoint
  // On rank 0: why another run could write here at the same time; empty if none can.
  std::string lock_doubt() const { return lock_ ? lock_->doubt() : ""; }
  // block_hash() of the last saved model, on rank 0.
  const std::string& parameters_sha256() const { return parameters_sha256_; }

  // Called once the run is certain to go ahead. Prepares evaluations.csv, and steps.csv, in which each rank continues
  // from its entry of `first_steps`. Returns the rows of evaluations.csv up to start_step().
  std::string begin(std::span<const std::uint64_t> first_steps, const Evaluations& evaluations);
  // On rank 0, after begin(): the bytes that earlier steps sent, according to the rows of all ranks.
  std::uint64_t recorded_bytes() const { return recorded_bytes_; }
  // Writes config.toml, and link.toml for emulated links. If nothing is left to train, a config.toml that is there
  // stays as it is.
  void write_options(bool trains);

  // Writes model_step_N, completely or not at all. Fills in run and parts of the manifest, and writes it, too. Then
  // removes checkpoints that need not be kept, except the one of step `best`. NumericError if a parameter is not
  // finite: no run could continue from there.
  void save(Manifest manifest, std::optional<std::uint64_t> best, Replica& replica, Algorithm& algorithm,
            RunTotals totals);
  // Removes all checkpoints that were kept as the best, except the one of step `best`.
  void remove_superseded(std::uint64_t best);
  // "model_step_N" if there is a checkpoint of that step, otherwise "". Not collective.
  std::string name_of(std::uint64_t step) const;
  // Reads the checkpoint of start_step(), also if another number of ranks wrote it. FileError if it cannot be read.
  void load(Replica& replica, Algorithm& algorithm, RunTotals& totals);

 private:
  struct Shared;
  // As FileWork::run(), for the work of rank 0 alone.
  void on_first(std::string_view doing, const std::function<void()>& work);
  void choose(const std::string& run);
  void start_from(const Manifest& manifest);
  void take_lock(const std::string& run);
  void require_lock() const;
  std::string verdict_on(const Manifest& manifest);
  void write_own(const std::filesystem::path& partial, Manifest& manifest, Replica& replica, Algorithm& algorithm,
                 RunTotals totals);
  void write_shared(const std::filesystem::path& partial, Manifest& manifest, const Shared& shared);
  void gather_parts(Manifest& manifest);
  void publish(const std::filesystem::path& partial, const Manifest& manifest, std::optional<std::uint64_t> best);
  bool own_parameters(Replica& replica) const;
  std::string own_file() const;

  const Choices& choices_;
  const TrainOptions& options_;
  std::optional<FolderLock> lock_;  // rank 0's
  Communicator& communicator_;
  std::uint64_t generation_;
  std::filesystem::path path_;
  FileWork files_;
  std::uint64_t run_ = 0;  // a random number of this run, the same on all ranks
  std::uint64_t start_step_ = 0;
  bool went_back_ = false;
  int written_by_ = 1;
  bool replicated_;
  std::string parameters_sha256_;
  std::uint64_t recorded_bytes_ = 0;
};

// Reads a checkpoint that another number of ranks wrote, and fills in the state of `rank`. Parameters, batch-norm
// statistics and the optimiser's vectors become the mean over the ranks that wrote it; equal values stay exactly the
// same. Their residuals become the mean (Elastic::take_over()). Bytes sent and the tally of training are added up, and
// rank 0 gets the sums. `own_parameters`: each rank's part holds parameters; otherwise the model file does. FileError.
void read_other_ranks(const std::filesystem::path& folder, int written_by, int rank, bool own_parameters,
                      Replica& replica, Algorithm& algorithm, RunTotals& totals);

}  // namespace sotto
