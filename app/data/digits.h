#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "app/data/dataset.h"
#include "sotto/core/random.h"

namespace sotto {

// Generated digits in MNIST's form (28x28, the digit in about the middle 20x20, white on black), so that a first run
// needs no files. Each example is a way of writing (digit_strokes.h) with random changes of knots, proportions, slant,
// size, place, pen and ink. Example i is a pure function of (data_seed, split, i), the same bytes on every machine.
//
// How hard the digits are: accuracy on the 10,000 test examples of seed 1 after training on 60,000 in batches of 256
// with momentum .9. It was measured with PyTorch; `sotto train` repeats it (logreg at a rate of .01, lenet at .05):
//   a linear model    SGD, 20 epochs: 91.1 %       L-BFGS: 91.1 %
//   LeNet             150 steps: 98.3 to 98.7 %    1 epoch: 98.7 to 98.9 %    3 epochs: 99.1 to 99.2 %
// LeNet converged from all of 20 initialisations. With more ink and jitter (radius up to 1.75, jitter .032, waves .036)
// it diverged from 2 of 10.
std::unique_ptr<Dataset> open_digits(const DataOptions& options, Split split);

// Draws one example: fills 784 pixels and returns the digit.
std::uint8_t draw_digit(Philox& random, std::span<std::uint8_t> pixels);

}  // namespace sotto
