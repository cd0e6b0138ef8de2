#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "sotto/core/random.h"
#include "sotto/data/dataset.h"

namespace sotto {

// Made pictures in CIFAR's form (3x32x32, 10 classes): class 2s + g shows shape s (disc, square, triangle, ring,
// cross), filled with a fine (g = 0) or a coarse (g = 1) grating, before a ground of other colours; place, size, angle,
// colours and noise vary. So neither colour nor place tells the class. Example i is a pure function of (data_seed,
// split, i), and the same bytes on every machine.
std::unique_ptr<Dataset> open_made_cifar(const DataOptions& options, Split split);

// One of them: fills 3x32x32 pixels and returns the class.
std::uint8_t draw_made_cifar(Philox& random, std::span<std::uint8_t> pixels);

}  // namespace sotto
