#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// A checkpoint is a folder `model_step_N`: `model.safetensors` (parameters and batch-norm statistics by their names,
// for evaluation and for other programs), `rank_R` for each rank (what only that rank knows), and `manifest`
// (manifest.h), which is written last. It is written as `model_step_N.tmp` and renamed once every rank's part is on
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
// Removes what an interrupted write left. REQUIRES that no run is using the folder.
void remove_partial(const std::filesystem::path& train_dir);

// Like remove_partial(), but does nothing if a run is using the folder or the folder does not exist: for a launcher
// whose ranks have ended.
void remove_abandoned(const std::filesystem::path& train_dir);

// "key = value" lines, for the header of a state file.
std::string to_text(const Metadata& metadata);
Metadata from_text(const std::string& text);

}  // namespace checkpoint
}  // namespace sotto
