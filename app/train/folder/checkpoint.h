#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/train/folder/safetensors.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// A checkpoint is a folder `model_step_N`: `model.safetensors` (parameters and batch-norm statistics by their names,
// for evaluation and for other programs), `rank_R` for each rank (what only that rank knows), and `manifest`
// (Manifest), which is written last. It is written as `model_step_N.tmp` and renamed once every rank's part is on
// disk, so a folder with the final name is complete.
namespace checkpoint {

inline constexpr std::string_view model_file = "model.safetensors";
// In the metadata of the model file, the key whose value is part_text().
inline constexpr std::string_view text_key = "sotto";

using Metadata = std::map<std::string, std::string>;

std::filesystem::path folder(const std::filesystem::path& train_dir, std::uint64_t step);
std::filesystem::path partial_folder(const std::filesystem::path& train_dir, std::uint64_t step);

std::string rank_file(int rank);

// The steps of a run's complete checkpoints, ascending.
std::vector<std::uint64_t> find(const std::filesystem::path& train_dir);
// Removes the files of an interrupted write. REQUIRES that no run is using the folder.
void remove_partial(const std::filesystem::path& train_dir);

// Like remove_partial(), but does nothing if a run is using the folder or the folder does not exist: for a launcher
// whose ranks have ended.
void remove_abandoned(const std::filesystem::path& train_dir);

// "key = value" lines, for the header of a state file.
std::string to_text(const Metadata& metadata);
Metadata from_text(const std::string& text);

}  // namespace checkpoint

// How long a checkpoint is kept. `always`: forever. `by_clock`: until there are two later ones that were made by the
// clock. `as_best`: until an evaluation is better than the one before this checkpoint.
enum class Kept : std::uint8_t { always, by_clock, as_best };

// The file `manifest` of a checkpoint, which is written last. It says which other files belong to the checkpoint, with
// their hashes.
struct Manifest {
  std::string run;  // a random number drawn when the run started
  std::uint64_t step = 0;
  Kept kept = Kept::always;
  std::string course{};                      // Course::text(); empty: an older version wrote it
  checkpoint::Metadata identity;             // what a run must have in common with this one to continue from here
  std::map<std::string, std::string> parts;  // block_hash() of each file, by name: "rank_0" ...

  std::string text() const;
  static Manifest of_text(const std::string& text);
};

// FileError.
void write_manifest(const std::filesystem::path& checkpoint, const Manifest& manifest);
std::string read_manifest_text(const std::filesystem::path& checkpoint);  // FileError also if there is none

// The text of a part: the identity and the name of the part.
std::string part_text(const Manifest& manifest, const std::string& name);
// Why the file `name` cannot be the part that was written; empty if nothing speaks against it.
std::string problem_of_part(const std::filesystem::path& checkpoint, const std::string& name, const Manifest& manifest,
                            ThreadPool& pool);

// The path of a checkpoint's model file. FileError if problem_of_part() finds a problem.
std::filesystem::path whole_model_file(const std::filesystem::path& checkpoint, const Manifest& manifest,
                                       ThreadPool& pool);
// Writes the model file of a checkpoint, and its hash to the manifest.
void write_model_file(const std::filesystem::path& checkpoint, Manifest& manifest, TensorPart parameters,
                      TensorPart buffers, ThreadPool& pool);

}  // namespace sotto
