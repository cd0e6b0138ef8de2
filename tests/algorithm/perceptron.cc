#include "tests/algorithm/perceptron.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/core/random.h"
#include "tests/support/specs.h"

namespace sotto::test {
namespace {

constexpr std::size_t inputs = 64, hidden = 32, classes = 10, batch = 32;
enum Number : std::size_t { w1, b1, w2, b2 };  // segments

void fill(std::span<float> out, double spread, std::uint64_t index) {
  Philox random(3, Purpose::test, index);
  for (float& value : out) value = static_cast<float>(spread * random.normal());
}

}  // namespace

Perceptron::Perceptron(int rank, const std::string& optimiser, std::size_t bucket_bytes) : rank_(rank) {
  layout_.append("fc1.weight", {hidden, inputs});
  layout_.append("fc1.bias", {hidden});
  layout_.append("fc2.weight", {classes, hidden});
  layout_.append("fc2.bias", {classes});
  buckets_ = plan_buckets(layout_, bucket_bytes);
  parameters_.resize(layout_.size());
  gradient_.resize(layout_.size());
  centres_.resize(classes * inputs);
  fill(centres_, 1, 0);
  fill(of(parameters_, w1), 0.125, 1);
  fill(of(parameters_, w2), 0.18, 2);
  optimiser_ = make_optimiser(test::optimiser(optimiser), layout_);
}

double Perceptron::compute_gradient(std::uint64_t step, const BucketCalls& calls) {
  for (std::size_t b = buckets_.size(); b-- > 0;) calls.needed(b);
  std::ranges::fill(gradient_, 0.0F);
  Philox random(4, Purpose::test, 1000 * step + static_cast<std::uint64_t>(rank_));
  double loss = 0;
  std::array<float, inputs> x{};
  for (std::size_t i = 0; i < batch; ++i) {
    const std::size_t label = random.below(classes);
    for (std::size_t j = 0; j < inputs; ++j) {
      x[j] = centres_[label * inputs + j] + static_cast<float>(2 * random.normal());
    }
    loss += learn(label, x, 1.0F / batch) / batch;
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) calls.ready(b);
  return loss;
}

// Returns the cross-entropy of one example, and adds its gradient times `share`.
double Perceptron::learn(std::size_t label, std::span<const float> x, float share) {
  std::array<float, hidden> h{}, dh{};
  std::array<float, classes> z{};
  for (std::size_t i = 0; i < hidden; ++i) {
    float sum = of(parameters_, b1)[i];
    for (std::size_t j = 0; j < inputs; ++j) sum += of(parameters_, w1)[i * inputs + j] * x[j];
    h[i] = std::max(sum, 0.0F);
  }
  for (std::size_t c = 0; c < classes; ++c) {
    z[c] = of(parameters_, b2)[c];
    for (std::size_t i = 0; i < hidden; ++i) z[c] += of(parameters_, w2)[c * hidden + i] * h[i];
  }
  const float most = *std::ranges::max_element(z);
  double sum = 0;
  for (const float value : z) sum += std::exp(static_cast<double>(value - most));
  const double loss = std::log(sum) - static_cast<double>(z[label] - most);
  for (std::size_t c = 0; c < classes; ++c) {
    const double p = std::exp(static_cast<double>(z[c] - most)) / sum;
    const float dz = share * static_cast<float>(p - (c == label ? 1 : 0));
    of(gradient_, b2)[c] += dz;
    for (std::size_t i = 0; i < hidden; ++i) {
      of(gradient_, w2)[c * hidden + i] += dz * h[i];
      dh[i] += dz * of(parameters_, w2)[c * hidden + i];
    }
  }
  for (std::size_t i = 0; i < hidden; ++i) {
    if (h[i] == 0) continue;
    of(gradient_, b1)[i] += dh[i];
    for (std::size_t j = 0; j < inputs; ++j) of(gradient_, w1)[i * inputs + j] += dh[i] * x[j];
  }
  return loss;
}

}  // namespace sotto::test
