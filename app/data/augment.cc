#include "app/data/augment.h"

#include <utility>

#include "app/data/dataset.h"
#include "sotto/core/error.h"

namespace sotto {

Augment read_augment(const std::string& text, const Dataset& data) {
  if (text == "crop-flip") return Augment::crop_flip;
  if (text == "resized-crop" && !data.decodes()) {
    throw ConfigError(named("augment", text) +
                      ": is for pictures in files, and these images have one size; crop-flip "
                      "is for them");
  }
  return text != "none" && data.decodes() ? Augment::resized_crop : Augment::none;
}

CropFlip::CropFlip(const ImageShape& shape, std::vector<float> black, std::int64_t pad)
    : shape_(shape), black_(std::move(black)), pad_(pad) {}

void CropFlip::apply(std::span<float> image, std::uint64_t seed, std::uint64_t epoch, std::uint32_t example) const {
  Philox random = augment_random(seed, epoch, example);
  const auto shift = [&] {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint32_t>(2 * pad_ + 1))) - pad_;
  };
  const std::int64_t down = shift(), right = shift();
  const bool mirrored = random.below(2) == 1;
  thread_local std::vector<float> before;  // the image as it was
  before.assign(image.begin(), image.end());
  const auto [channels, height, width] = shape_;
  auto to = image.begin();
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const float black = black_[static_cast<std::size_t>(channel)];
    for (std::int64_t y = down; y < down + height; ++y) {
      const float* row = before.data() + (channel * height + y) * width;
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t x = right + (mirrored ? width - 1 - i : i);
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        *to++ = inside ? row[x] : black;
      }
    }
  }
}

}  // namespace sotto
