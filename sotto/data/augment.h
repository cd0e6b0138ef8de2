#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/core/batch.h"
#include "sotto/core/random.h"

namespace sotto {

// Pads an image by `pad` black pixels on each side, crops it to its old size at a random place, and mirrors it with
// probability 1/2 (He et al., CVPR 2016, on CIFAR): as torchvision's RandomCrop and RandomHorizontalFlip.
class CropFlip {
 public:
  // `black` is the value of a black pixel in each channel.
  CropFlip(const ImageShape& shape, std::vector<float> black, std::int64_t pad = 4);

  // What happens to the image is a pure function of (seed, epoch, example).
  void apply(std::span<float> image, std::uint64_t seed, std::uint64_t epoch, std::uint32_t example);

 private:
  ImageShape shape_;
  std::vector<float> black_;
  std::int64_t pad_;
  std::vector<float> before_;  // the image as it was
};

}  // namespace sotto
