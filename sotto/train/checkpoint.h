#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// A checkpoint is a folder `model_step_N`: `model` (parameters and batch-norm statistics, for evaluation) and `rank_R`
// for each rank (what only that rank knows). It is written as `model_step_N.tmp` and renamed when every rank's part is
// on the disk, so a folder of the final name is whole.
namespace checkpoint {

// What of `model` is evaluated in place of "parameters", where the optimiser says so (Optimiser::to_evaluate).
inline constexpr std::string_view evaluated_parameters = "parameters-to-evaluate";

using Metadata = std::map<std::string, std::string>;

std::filesystem::path folder(const std::filesystem::path& train_dir, std::uint64_t step);
std::filesystem::path partial_folder(const std::filesystem::path& train_dir, std::uint64_t step);

// Steps of the complete checkpoints of a run, ascending.
std::vector<std::uint64_t> find(const std::filesystem::path& train_dir);
// Removes what an interrupted write left behind. REQUIRES: no run is at work there.
void remove_partial(const std::filesystem::path& train_dir);

// The same, unless a run is at work there or there is no such folder: for a launcher whose ranks have ended.
void remove_abandoned(const std::filesystem::path& train_dir);

// "key = value" lines, for the header of a state file.
std::string to_text(const Metadata& metadata);
Metadata from_text(const std::string& text);

}  // namespace checkpoint
}  // namespace sotto
