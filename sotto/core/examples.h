#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace sotto {

// Examples that a model gets, and the epochs that they make up.

struct ImageShape {
  std::int64_t channels = 1, height = 28, width = 28;
  std::size_t size() const { return static_cast<std::size_t>(channels * height * width); }
  bool operator==(const ImageShape&) const = default;
};

// Labelled images, borrowed: images are (count, channels, height, width), normalised to about mean 0 and variance 1.
struct Batch {
  std::span<const float> images;
  std::span<const std::int64_t> labels;
  ImageShape shape;
  std::size_t count() const { return labels.size(); }
};

// A sparse example, borrowed: values[i] is the value of feature columns[i], and all other features are 0. Columns
// ascend.
struct Row {
  std::span<const std::uint32_t> columns;
  std::span<const float> values;
  float label = 0;
};

// The length of an epoch: `batches` batches, of which a step takes `per_step`. An epoch need not be a whole number of
// steps: a step may begin in one epoch and end in the next, or be longer than an epoch. Neither number is 0.
struct EpochLength {
  std::uint64_t batches = 1, per_step = 1;

  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  double steps() const { return static_cast<double>(batches) / static_cast<double>(per_step); }
  std::uint64_t epoch_of(std::uint64_t step) const { return step * per_step / batches; }
  // The first step that begins in this epoch or later; `never` if no number is large enough.
  std::uint64_t first_step_in(std::uint64_t epoch) const {
    if (epoch > (never - per_step) / batches) return never;
    return (epoch * batches + per_step - 1) / per_step;
  }
  // The epochs that have begun before this step.
  std::uint64_t begun_before(std::uint64_t step) const { return (step * per_step + batches - 1) / batches; }
};

}  // namespace sotto
