#include "app/data/generated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sotto/core/error.h"

namespace sotto {

Philox example_random(std::uint64_t seed, Split split, std::uint64_t index) {
  return {seed, Purpose::data, (static_cast<std::uint64_t>(split) << 40) | index};
}

float bell(Philox& random) {
  std::int64_t sum = -(std::int64_t{2} << 32);
  for (int i = 0; i < 4; ++i) sum += random.next();
  return static_cast<float>(sum) * 0x1p-32F * 1.7320508F;
}

float between(Philox& random, float low, float high) {
  return low + (high - low) * (static_cast<float>(random.next() >> 8) * 0x1p-24F);
}

float sine(float turns) {
  const float t = turns - std::floor(turns + 0.5F);  // [-1/2, 1/2)
  const float y = 8 * t * (1 - 2 * std::abs(t));
  return y + 0.225F * (y * std::abs(y) - y);
}

std::uint8_t to_byte(float value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 1.0F) * 255.99F); }

GeneratedDataset::GeneratedDataset(ImageShape shape, std::int64_t classes, const Normalisation& normalisation,
                                   Render render, std::uint64_t seed, Split split, std::size_t count)
    : shape_(shape),
      classes_(classes),
      normaliser_(shape, normalisation),
      render_(render),
      seed_(seed),
      split_(split),
      states_(count),
      pixels_(std::make_unique_for_overwrite<std::uint8_t[]>(count * shape.size())),
      labels_(std::make_unique_for_overwrite<std::uint8_t[]>(count)) {}

void GeneratedDataset::read(std::size_t index, std::span<float> image, std::int64_t& label) const {
  const std::size_t n = shape_.size();
  if (index >= states_.size() || image.size() != n) throw std::out_of_range("GeneratedDataset::read");
  const std::span<std::uint8_t> kept(pixels_.get() + index * n, n);
  State state = states_[index].load(std::memory_order_acquire);
  if (state == State::kept) {
    normaliser_.apply(kept, image);
    label = labels_[index];
    return;
  }
  // If several threads draw the same example at once, the first one stores it; the others discard their identical copy.
  thread_local std::vector<std::uint8_t> drawn;
  drawn.resize(n);
  Philox random = example_random(seed_, split_, index);
  const std::uint8_t drawn_label = render_(random, drawn);
  if (state == State::unknown && states_[index].compare_exchange_strong(state, State::being_kept)) {
    std::copy(drawn.begin(), drawn.end(), kept.begin());
    labels_[index] = drawn_label;
    states_[index].store(State::kept, std::memory_order_release);
  }
  normaliser_.apply(drawn, image);
  label = drawn_label;
}

// Drawn images are not kept here, since a rank that needs all labels reads only its share of the images.
std::int64_t GeneratedDataset::label(std::size_t index) const {
  if (index >= states_.size()) throw std::out_of_range("GeneratedDataset::label");
  if (states_[index].load(std::memory_order_acquire) == State::kept) return labels_[index];
  thread_local std::vector<std::uint8_t> drawn;
  drawn.resize(shape_.size());
  Philox random = example_random(seed_, split_, index);
  return render_(random, drawn);
}

std::size_t generated_size(const DataOptions& options, Split split, std::size_t usual_train, std::size_t usual_test) {
  const std::int64_t wanted = split == Split::train ? options.train_size : options.test_size;
  if (wanted == 0) return split == Split::train ? usual_train : usual_test;
  if (wanted < 0 || wanted > DataOptions::most_examples) {
    throw ConfigError(fmt::format("{} must be in [0, {}]", size_option(split, wanted), DataOptions::most_examples));
  }
  return static_cast<std::size_t>(wanted);
}

}  // namespace sotto
