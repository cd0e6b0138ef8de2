#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto {

// Measures a codec on gradients of a run, and writes its bytes and errors to codec_errors.csv.
class CodecErrorCsv {
 public:
  explicit CodecErrorCsv(std::unique_ptr<Codec> codec) : codec_(std::move(codec)) {}

  // Begins the file in the run folder; rows from `first_step` on, which a resumed run repeats, are removed. FileError.
  void begin(const std::filesystem::path& folder, std::uint64_t first_step);
  // Appends a row. FileError.
  void add(std::uint64_t step, const Layout& layout, std::span<const float> gradient);

 private:
  std::unique_ptr<Codec> codec_;
  std::filesystem::path path_;
};

}  // namespace sotto
