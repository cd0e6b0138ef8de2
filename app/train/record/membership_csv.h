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
  std::vector<int> newcomers{};  // those members that brought no state of their own
  std::vector<int> threads{};    // compute threads of each member
  bool starts = true;            // it begins at step 0, or from a checkpoint
  std::uint64_t continues = 0;   // otherwise the generation whose state in memory it continues
  double epoch = 0;              // its place in the data
  std::size_t line = 0;          // of the file, once it is read
};

// FileError.
void append_generation(const std::filesystem::path& train_dir, const GenerationRow& row);

// All rows in the order of the file, without a last line that a crash cut off. FileError, which names the line, if the
// file is missing, or a row contradicts those before it.
std::vector<GenerationRow> read_membership(const std::filesystem::path& train_dir);
// The generations that made the present state of a run, from its last start on: each continues from the one before it.
// Generations whose steps were all made again by later ones are left out. FileError as above, or if there is no row.
std::vector<GenerationRow> read_generations(const std::filesystem::path& train_dir);

}  // namespace sotto
