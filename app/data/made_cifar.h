#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "app/data/dataset.h"
#include "sotto/core/random.h"

namespace sotto {

// Generated images in CIFAR's form (3x32x32, 10 classes). Class 2s + g shows shape s (disc, square, triangle, ring,
// cross), filled with a fine (g = 0) or coarse (g = 1) grating, on a background of other colours. Place, size, angle,
// colours and noise are random, so neither colour nor place tells the class. Example i is a pure function of
// (data_seed, split, i), the same bytes on every machine.
std::unique_ptr<Dataset> open_made_cifar(const DataOptions& options, Split split);

// The same with ImageNet's shape and normalisation, or a side of options.image_size.
std::unique_ptr<Dataset> open_made_images(const DataOptions& options, Split split);

// Draws one example: fills the pixels of three channels of a square, and returns the class. The same random numbers
// give the same picture at any size, but for the noise.
std::uint8_t draw_made_cifar(Philox& random, std::span<std::uint8_t> pixels);

}  // namespace sotto
