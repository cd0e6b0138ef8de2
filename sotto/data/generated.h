#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/data/dataset.h"
#include "sotto/data/pixels.h"

namespace sotto {

// The random numbers of one made example: they depend on seed, split and index alone.
Philox example_random(std::uint64_t seed, Split split, std::uint64_t index);

// About normal, mean 0 and variance 1, never beyond 3.5: a sum of four uniform numbers. Unlike Philox::normal() it
// needs no libm, whose last bits differ between machines, so made data are the same bytes everywhere.
float bell(Philox& random);
// [low, high), a multiple of 2^-24 of the range.
float between(Philox& random, float low, float high);
// sin(2 pi turns) within 0.001, by two parabolas: again no libm.
float sine(float turns);

// [0, 1] in 256 equal steps; what is outside counts as 0 or 1.
std::uint8_t to_byte(float value);

// Draws one example: fills the pixels (channel after channel) and returns the label.
using Render = std::uint8_t (*)(Philox& random, std::span<std::uint8_t> pixels);

// Made images. Each is drawn when it is first read, and kept as bytes.
class GeneratedDataset final : public Dataset {
 public:
  GeneratedDataset(ImageShape shape, std::int64_t classes, const Normalisation& normalisation, Render render,
                   std::uint64_t seed, Split split, std::size_t count);
  std::size_t size() const override { return states_.size(); }
  ImageShape shape() const override { return shape_; }
  std::int64_t classes() const override { return classes_; }
  void read(std::size_t index, std::span<float> image, std::int64_t& label) const override;

 private:
  enum class State : std::uint8_t { unknown, being_kept, kept };
  ImageShape shape_;
  std::int64_t classes_;
  Normaliser normaliser_;
  Render render_;
  std::uint64_t seed_;
  Split split_;
  // Memory that is not touched before an example is drawn: ranks that read a share of the data hold a share of it.
  mutable std::vector<std::atomic<State>> states_;
  std::unique_ptr<std::uint8_t[]> pixels_;
  std::unique_ptr<std::uint8_t[]> labels_;
};

// The size that the options ask for, or `usual` when they leave it open. ConfigError when it is more than
// DataOptions::most_examples.
std::size_t generated_size(const DataOptions& options, Split split, std::size_t usual_train, std::size_t usual_test);

}  // namespace sotto
