#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "app/data/dataset.h"
#include "app/data/pixels.h"
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

// A function that draws one example: it fills the pixels (channel after channel) and returns the label.
using Render = std::uint8_t (*)(Philox& random, std::span<std::uint8_t> pixels);

// Generated images. Each is drawn when it is first read, and then kept as bytes.
class GeneratedDataset final : public Dataset {
 public:
  GeneratedDataset(ImageShape shape, std::int64_t classes, const Normalisation& normalisation, Render render,
                   std::uint64_t seed, Split split, std::size_t count);
  std::size_t size() const override { return states_.size(); }
  ImageShape shape() const override { return shape_; }
  std::int64_t classes() const override { return classes_; }
  void read(std::size_t index, std::span<float> image, std::int64_t& label) const override;
  std::int64_t label(std::size_t index) const override;
  std::vector<float> black() const override { return normaliser_.black(); }

 private:
  enum class State : std::uint8_t { unknown, being_kept, kept };
  ImageShape shape_;
  std::int64_t classes_;
  Normaliser normaliser_;
  Render render_;
  std::uint64_t seed_;
  Split split_;
  // pixels_ and labels_ are not touched before an example is drawn, so a rank that reads a share of the data occupies
  // only a share of this memory.
  mutable std::vector<std::atomic<State>> states_;
  std::unique_ptr<std::uint8_t[]> pixels_;
  std::unique_ptr<std::uint8_t[]> labels_;
};

// The number of examples of a split: the number in the options, or the usual one when that is 0. ConfigError when it is
// more than DataOptions::most_examples.
std::size_t generated_size(const DataOptions& options, Split split, std::size_t usual_train, std::size_t usual_test);

}  // namespace sotto
