#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sotto {

// A row of a run's membership.csv: who trained from which step on.
struct GenerationRow {
  std::uint64_t generation = 0;
  std::uint64_t step = 0;        // its first
  std::vector<int> ids{};        // of its members, ascending: their places are their ranks
  std::vector<int> newcomers{};  // those of them that brought no state of their own
  std::vector<int> threads{};    // that each member computes with
  bool starts = true;            // it begins at step 0, or with the checkpoint of its first step
  std::uint64_t continues = 0;   // otherwise the generation whose state it continued from, in memory
  double epoch = 0;              // its place in the data
  std::size_t line = 0;          // of the file, once it is read
};

// FileError.
void append_generation(const std::filesystem::path& train_dir, const GenerationRow& row);

// All rows in the order of the file, without a last line that a crash cut off. FileError, which names the line, if the
// file is missing, or says what cannot have been.
std::vector<GenerationRow> read_membership(const std::filesystem::path& train_dir);
// The generations that made the present state of a run, from its last start on: each continues from the one before it.
// Those whose steps were all taken again are left out. FileError as above, or if there is no row.
std::vector<GenerationRow> read_generations(const std::filesystem::path& train_dir);

}  // namespace sotto
