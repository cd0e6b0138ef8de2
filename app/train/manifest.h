#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "sotto/core/thread_pool.h"
#include "app/train/checkpoint.h"
#include "app/train/safetensors.h"

namespace sotto {

// How long a checkpoint is kept: forever; until there are two later ones made by the clock; or until a later evaluation
// is better than the one before this checkpoint.
enum class Kept : std::uint8_t { always, by_clock, as_best };

// The file `manifest` of a checkpoint, which is written last. It says what the other files must be to belong together.
struct Manifest {
  std::string run;  // a random number drawn when the run started
  std::uint64_t step = 0;
  Kept kept = Kept::always;
  std::string course{};                      // Course::text(); empty: an older version wrote it
  checkpoint::Metadata identity;             // what a run that continues from here must have in common with this one
  std::map<std::string, std::string> parts;  // block_hash() of each file, by name: "rank_0" ...

  std::string text() const;
  static Manifest of_text(const std::string& text);
};

// FileError.
void write_manifest(const std::filesystem::path& checkpoint, const Manifest& manifest);
std::string read_manifest_text(const std::filesystem::path& checkpoint);  // FileError also if there is none

// The text of a part: the identity and the name of the part.
std::string part_text(const Manifest& manifest, const std::string& name);
// Why the file of this name is not the part that was written, as far as can be told; empty if it is.
std::string problem_of_part(const std::filesystem::path& checkpoint, const std::string& name, const Manifest& manifest,
                            ThreadPool& pool);

// The path of a checkpoint's model file. FileError if problem_of_part() finds one.
std::filesystem::path whole_model_file(const std::filesystem::path& checkpoint, const Manifest& manifest,
                                       ThreadPool& pool);
// Writes the model file of a checkpoint, and its hash to the manifest.
void write_model_file(const std::filesystem::path& checkpoint, Manifest& manifest, TensorPart parameters,
                      TensorPart buffers, ThreadPool& pool);

}  // namespace sotto
