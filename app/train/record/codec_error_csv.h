#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto {

// Measures a codec on gradients of a run. Writes its bytes and errors to codec_errors.csv, and the bytes that each
// tensor takes to tensor_bytes.csv.
class CodecErrorCsv {
 public:
  explicit CodecErrorCsv(std::unique_ptr<Codec> codec) : codec_(std::move(codec)) {}

  // Begins the files in the run folder; rows from `first_step` on, which a resumed run repeats, are removed. FileError.
  void begin(const std::filesystem::path& folder, std::uint64_t first_step);
  // Appends the rows of a gradient, which is encoded in these buckets. FileError.
  void add(std::uint64_t step, const Layout& layout, std::span<const BucketPlan> buckets,
           std::span<const float> gradient);

 private:
  std::unique_ptr<Codec> codec_;
  std::filesystem::path errors_, tensors_;
};

// What one tensor takes in the messages of a run's gradients: means over the measured steps.
struct TensorBytes {
  // Stands for all that belongs to no tensor alone: headers, and what a code adds or saves for several tensors together
  // (then bytes may be negative).
  static constexpr std::string_view together = "(together)";

  std::string tensor;
  std::uint64_t elements = 0;
  double bytes = 0;
};
struct MeasuredTensors {
  std::uint64_t steps = 0;
  std::vector<TensorBytes> rows;  // in the model's order; `together` is last
};

// FileError, with the line, if the run's codec_errors.csv holds something else than such rows.
void check_codec_errors(const std::filesystem::path& train_dir);

// Reads a run's tensor_bytes.csv, without the rows of a step whose end could not be written; nothing if there is no
// such file. FileError, with the line, if it holds something else.
MeasuredTensors read_tensor_bytes(const std::filesystem::path& train_dir);

}  // namespace sotto
