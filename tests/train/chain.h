#pragma once

#include <vector>

#include "app/task/task.h"

namespace sotto::test {

// Segments a, b, c and d of 16 floats. Forward reads a, c and d, and not b; backward adds 1 to the gradient of d, then
// of c, then of a.
class Chain final : public Task {
 public:
  std::uint64_t sample_hash(Split /*split*/) const override { return 0; }
  Chain() {
    for (const char* name : {"a", "b", "c", "d"}) layout_.append(name, {16});
    parameters_.resize(layout_.size());
    gradient_.resize(layout_.size());
  }
  const Layout& layout() const override { return layout_; }
  const Layout& buffer_layout() const override { return no_buffers_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<float> buffers() override { return {&statistics_, 1}; }
  std::uint64_t examples(Split) const override { return 1; }
  const Epochs& epochs() const override { return epochs_; }
  void go_on(const ReadingStart&, Share) override {}
  double accumulate_gradient(std::uint64_t position, float scale, std::uint64_t, const SegmentCalls& calls) override {
    positions.push_back(position);
    for (const std::size_t segment : {0, 2, 3}) calls.needed(segment);
    for (const std::size_t segment : {3, 2, 0}) {
      for (float& value : part(segment)) value += scale * slope;
      if (calls.ready) calls.ready(segment);
    }
    ++trained_[0];
    statistics_ += 1;
    return loss;
  }
  double data_seconds() const override { return 0.25; }
  Tally evaluate(Split, Share, const AfterBatch&) override { return {}; }
  Tally& trained() override { return trained_; }
  Metrics metrics(const Tally&) const override { return {}; }
  double loss_of_guessing() const override { return 1; }

  std::span<float> part(std::size_t segment) {
    const Range range = layout_.segments()[segment].range();
    return std::span(gradient_).subspan(range.begin, range.size());
  }

  double loss = 0.5;
  float slope = 1;
  std::vector<std::uint64_t> positions;  // that were asked for

 private:
  Epochs epochs_;
  Tally trained_{0};
  float statistics_ = 0;
  Layout layout_, no_buffers_;
  std::vector<float> parameters_, gradient_;
};

}  // namespace sotto::test
