#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

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

}  // namespace sotto
