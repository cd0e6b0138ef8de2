#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/batch.h"
#include "sotto/core/random.h"

namespace sotto {

class Dataset;

// Random changes of training images.
enum class Augment : std::uint8_t {
  none,
  crop_flip,     // CropFlip
  resized_crop,  // Dataset::read_crop()
};
// The meaning of the option `augment` for these data. ConfigError if they do not support it.
Augment read_augment(const std::string& text, const Dataset& data);

// The random numbers of the changes of an image.
inline Philox augment_random(std::uint64_t seed, std::uint64_t epoch, std::uint32_t example) {
  return {seed, Purpose::augment, epoch << 32U | example};
}

// Pads an image by `pad` black pixels on each side, crops it to its old size at a random place, and mirrors it with
// probability 1/2 (He et al., CVPR 2016, on CIFAR): as torchvision's RandomCrop and RandomHorizontalFlip.
class CropFlip {
 public:
  // `black` is the value of a black pixel in each channel.
  CropFlip(const ImageShape& shape, std::vector<float> black, std::int64_t pad = 4);

  // The change of the image is a pure function of (seed, epoch, example). Several threads may call this at once.
  void apply(std::span<float> image, std::uint64_t seed, std::uint64_t epoch, std::uint32_t example) const;

 private:
  ImageShape shape_;
  std::vector<float> black_;
  std::int64_t pad_;
};

}  // namespace sotto
