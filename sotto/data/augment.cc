#include "sotto/data/augment.h"

#include <algorithm>
#include <utility>

namespace sotto {

CropFlip::CropFlip(const ImageShape& shape, std::vector<float> black, std::int64_t pad)
    : shape_(shape), black_(std::move(black)), pad_(pad), before_(shape.size()) {}

void CropFlip::apply(std::span<float> image, std::uint64_t seed, std::uint64_t epoch, std::uint32_t example) {
  Philox random(seed, Purpose::augment, epoch << 32U | example);
  const auto shift = [&] {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint32_t>(2 * pad_ + 1))) - pad_;
  };
  const std::int64_t down = shift(), right = shift();
  const bool mirrored = random.below(2) == 1;
  std::ranges::copy(image, before_.begin());
  const auto [channels, height, width] = shape_;
  auto to = image.begin();
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const float black = black_[static_cast<std::size_t>(channel)];
    for (std::int64_t y = down; y < down + height; ++y) {
      const float* row = before_.data() + (channel * height + y) * width;
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t x = right + (mirrored ? width - 1 - i : i);
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        *to++ = inside ? row[x] : black;
      }
    }
  }
}

}  // namespace sotto
