#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sotto {

// A row of a run's membership.csv: who trained from which step on.
struct GenerationRow {
  std::uint64_t generation = 0;
  std::uint64_t step = 0;  // its first
  std::vector<int> ids;    // of its members, in the order of their ranks
};

// FileError.
void append_generation(const std::filesystem::path& train_dir, const GenerationRow& row);

}  // namespace sotto
