#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "sotto/core/random.h"
#include "sotto/data/dataset.h"

namespace sotto {

// Made digits in MNIST's form (28x28, the digit in about the middle 20x20, white on black), so that a first run needs
// no files: a way of writing (digit_strokes.h), whose knots, proportions, slant, size, place, pen and ink vary, drawn
// by pen.h. Example i is a pure function of (data_seed, split, i), and the same bytes on every machine.
std::unique_ptr<Dataset> open_digits(const DataOptions& options, Split split);

// One of them: fills 784 pixels and returns the digit.
std::uint8_t draw_digit(Philox& random, std::span<std::uint8_t> pixels);

}  // namespace sotto
