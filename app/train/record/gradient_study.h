#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/train/options/choices.h"
#include "app/train/record/capture.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto {

// Measures a codec on gradients of a run. Writes the bytes and errors of its messages to codec_errors.csv, and the
// bytes of each tensor to tensor_bytes.csv.
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
  // The row of all bytes that belong to no tensor alone: headers, and bytes that a code adds or saves for several
  // tensors together. If it saves, they are negative.
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

// ConfigError if the folder for captures holds captures of another run.
void check_capture_folder(const Choices& choices);
// ConfigError, on all ranks, if the memory is to be captured and the algorithm cannot give its contents.
void check_captured_memory(const Choices& choices, Algorithm& algorithm, std::span<const BucketPlan> buckets);

// Captures copies of a rank's own gradient, and measures the codec on them, on its own thread while training continues.
// The next gradient that is due waits for the thread.
class GradientStudy {
 public:
  // The first `idle` of the ranks compute no gradients.
  GradientStudy(const Choices& choices, int rank, int ranks, int idle);
  GradientStudy(const GradientStudy&) = delete;
  GradientStudy& operator=(const GradientStudy&) = delete;

  // Prepares the files in the run folder. `mine`: this rank is the one that measures, and that captures if only one
  // does. FileError.
  void begin(const std::filesystem::path& run_folder, std::uint64_t first_step, bool mine);

  // Whether this rank uses the gradient of this step.
  bool due(std::uint64_t step) const { return captures(step) || measures(step); }
  // Whether the algorithm must drain() after this step, on all ranks.
  bool needs_rest(std::uint64_t step) const { return plan_.memory && plan_.due(step); }
  // Waits for the thread, and returns room for the gradient of a step that is due. Throws what the thread threw.
  std::span<float> room(std::size_t elements);
  // Starts to work on the gradient in the room. Layout and buckets must outlive this object.
  void start(std::uint64_t step, const Layout& layout, Algorithm& algorithm, std::span<const BucketPlan> buckets);
  // Waits for the thread, and throws what it threw.
  void finish();
  // What a reader of the run should know; empty: nothing new. REQUIRES finish() or room() before, and no start() since.
  std::string take_remark() { return capture_.take_remark(); }

 private:
  bool captures(std::uint64_t step) const { return captures_ && plan_.due(step); }
  bool measures(std::uint64_t step) const { return errors_ && step % measured_every_ == 0; }
  void work(std::uint64_t step, const Layout& layout, std::span<const BucketPlan> buckets);

  CapturePlan plan_;
  bool captures_;  // this rank does
  std::uint64_t measured_every_;
  std::vector<StageSpec> stages_;
  std::unique_ptr<CodecErrorCsv> errors_;  // null: this rank measures nothing
  std::string_view memory_name_;
  Capture capture_;
  std::vector<float> gradient_, memory_;  // owned by the thread while it runs, as is `capture_`
  std::future<void> working_;             // the last member: its destructor waits for the thread, which uses the others
};

}  // namespace sotto
