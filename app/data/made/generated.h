#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "app/data/images/dataset.h"
#include "app/data/images/pixels.h"
#include "sotto/core/random.h"

namespace sotto {

// The random numbers of one generated example. They depend on seed, split and index alone.
Philox example_random(std::uint64_t seed, Split split, std::uint64_t index);

// Approximately normal with mean 0 and variance 1, always within 3.5: a sum of four uniform numbers. Unlike
// Philox::normal() it does not use libm, whose last bits differ between machines, so generated data are the same
// everywhere.
float bell(Philox& random);
// Uniform in [low, high), in steps of 2^-24 of the range.
float between(Philox& random, float low, float high);
// sin(2 pi turns) within 0.001, from two parabolas, without libm.
float sine(float turns);

// Quantises [0, 1] to 256 equal steps. Values outside are clamped.
std::uint8_t to_byte(float value);

// A function that draws one example: it fills the pixels (channel after channel) and returns the label, below ten.
using Render = std::uint8_t (*)(Philox& random, std::span<std::uint8_t> pixels);
inline constexpr std::uint32_t drawn_classes = 10;
std::uint8_t draw_digit(Philox& random, std::span<std::uint8_t> pixels);  // 784 pixels
// The three channels of a square. The same random numbers give the same picture at any size, but for the noise.
std::uint8_t draw_made_cifar(Philox& random, std::span<std::uint8_t> pixels);

// A set of generated images, and its usual size.
struct GeneratedForm {
  ImageShape shape;
  Normalisation normalisation;
  Render render;
  std::size_t usual_train, usual_test;
};
inline constexpr GeneratedForm digit_form{{1, 28, 28}, mnist_normalisation, draw_digit, 60'000, 10'000};
inline constexpr GeneratedForm made_cifar_form{{3, 32, 32}, cifar_normalisation, draw_made_cifar, 50'000, 10'000};

// Each image is drawn when it is first read, and then kept as bytes.
std::unique_ptr<Dataset> open_generated(const DataOptions& options, Split split, const GeneratedForm& form);

}  // namespace sotto
