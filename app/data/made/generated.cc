#include "app/data/made/generated.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace sotto {
namespace {

class GeneratedDataset final : public Dataset {
 public:
  GeneratedDataset(const GeneratedForm& form, std::uint64_t seed, Split split, std::size_t count)
      : form_(form),
        normaliser_(form.shape, form.normalisation),
        seed_(seed),
        split_(split),
        states_(count),
        pixels_(std::make_unique_for_overwrite<std::uint8_t[]>(count * form.shape.size())),
        labels_(std::make_unique_for_overwrite<std::uint8_t[]>(count)) {}
  std::size_t size() const override { return states_.size(); }
  ImageShape shape() const override { return form_.shape; }
  std::int64_t classes() const override { return drawn_classes; }
  std::vector<float> black() const override { return normaliser_.black(); }

  void read(std::size_t index, std::span<float> image, std::int64_t& label) const override {
    const std::size_t n = shape().size();
    if (index >= size() || image.size() != n) throw std::out_of_range("GeneratedDataset::read");
    const std::span<std::uint8_t> kept(pixels_.get() + index * n, n);
    State state = states_[index].load(std::memory_order_acquire);
    if (state == State::kept) {
      normaliser_.apply(kept, image);
      label = labels_[index];
      return;
    }
    // If several threads draw the same example at once, the first one stores it; the others discard their identical
    // copy.
    const auto [drawn, drawn_label] = draw(index);
    if (state == State::unknown && states_[index].compare_exchange_strong(state, State::being_kept)) {
      std::ranges::copy(drawn, kept.begin());
      labels_[index] = drawn_label;
      states_[index].store(State::kept, std::memory_order_release);
    }
    normaliser_.apply(drawn, image);
    label = drawn_label;
  }

  // Drawn images are not kept here, since a rank that needs all labels reads only its share of the images.
  std::int64_t label(std::size_t index) const override {
    if (index >= size()) throw std::out_of_range("GeneratedDataset::label");
    return states_[index].load(std::memory_order_acquire) == State::kept ? labels_[index] : draw(index).label;
  }

 private:
  enum class State : std::uint8_t { unknown, being_kept, kept };

  struct Drawn {
    std::span<const std::uint8_t> pixels;  // valid until this thread draws again
    std::uint8_t label;
  };
  Drawn draw(std::size_t index) const {
    thread_local std::vector<std::uint8_t> pixels;
    pixels.resize(shape().size());
    Philox random = example_random(seed_, split_, index);
    const std::uint8_t label = form_.render(random, pixels);
    return {pixels, label};
  }

  GeneratedForm form_;
  Normaliser normaliser_;
  std::uint64_t seed_;
  Split split_;
  // pixels_ and labels_ are not touched before an example is drawn, so a rank that reads a share of the data occupies
  // only a share of this memory.
  mutable std::vector<std::atomic<State>> states_;
  std::unique_ptr<std::uint8_t[]> pixels_;
  std::unique_ptr<std::uint8_t[]> labels_;
};

}  // namespace

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

std::unique_ptr<Dataset> open_generated(const DataOptions& options, Split split, const GeneratedForm& form) {
  return std::make_unique<GeneratedDataset>(form, static_cast<std::uint64_t>(options.data_seed), split,
                                            generated_size(options, split, form.usual_train, form.usual_test));
}

}  // namespace sotto
