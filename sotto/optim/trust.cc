#include "sotto/optim/trust.h"

#include <algorithm>
#include <cmath>

#include "sotto/kernels/reduce.h"

namespace sotto {

Tensors::Tensors(const Layout& layout) : size_(layout.size()) {
  for (const Segment& segment : layout.segments()) tensors_.push_back({segment.range(), segment.shape.size() <= 1});
}

std::span<const Tensors::Tensor> Tensors::within(std::size_t begin, std::size_t size) const {
  if (begin > size_ || size > size_ - begin) throw std::logic_error("Optimiser: a stretch after the last parameter");
  const auto first = std::ranges::partition_point(tensors_, [&](const Tensor& t) { return t.range.end <= begin; });
  const auto last =
      std::ranges::partition_point(tensors_, [&](const Tensor& t) { return t.range.begin < begin + size; });
  if (first >= last) return {};
  if (first->range.begin < begin || (last - 1)->range.end > begin + size) {
    throw std::logic_error("Optimiser: a stretch that cuts a tensor");
  }
  return {first, last};
}

namespace {

class Lars final : public Optimiser {
 public:
  Lars(const LarsOptions& options, const Layout& layout)
      : options_(options),
        tensors_(layout),
        size_(layout.size()),
        velocity_(options.momentum == 0 ? 0 : layout.size()) {}

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, size_);
    for (const Tensors::Tensor& tensor : tensors_.within(begin, mean.size())) {
      const auto p = parameters.subspan(tensor.range.begin - begin, tensor.range.size());
      const auto g = mean.subspan(tensor.range.begin - begin, tensor.range.size());
      const bool adapts = !tensor.vector || options_.adapt_vectors;
      const auto rate = static_cast<float>(adapts ? lr * trust_ratio(p, g) : lr);
      const auto decay = static_cast<float>(adapts ? options_.weight_decay : 0);
      if (velocity_.empty()) {
        for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * (g[i] + decay * p[i]);
        continue;
      }
      const auto momentum = static_cast<float>(options_.momentum);
      float* v = velocity_.data() + tensor.range.begin;
      for (std::size_t i = 0; i < p.size(); ++i) {
        v[i] = momentum * v[i] + rate * (g[i] + decay * p[i]);
        p[i] -= v[i];
      }
    }
  }

  bool needs_whole_tensors() const override { return true; }
  void visit_state(StateVisitor& visitor) override { visit_vector(visitor, "velocity", velocity_); }

 private:
  double trust_ratio(std::span<const float> p, std::span<const float> g) const {
    const double parameters = std::sqrt(kernels::sum_squares(p)), gradient = std::sqrt(kernels::sum_squares(g));
    if (parameters == 0 || gradient == 0) return 1;
    return options_.trust * parameters / (gradient + options_.weight_decay * parameters + options_.eps);
  }

  LarsOptions options_;
  Tensors tensors_;
  std::size_t size_;
  std::vector<float> velocity_;  // of the last step; empty without momentum
};

}  // namespace

std::unique_ptr<Optimiser> make_lars(const LarsOptions& options, const Layout& layout) {
  return std::make_unique<Lars>(options, layout);
}

namespace {

// |p| / |update|, or 1 if either is zero.
double ratio_of_lengths(std::span<const float> p, std::span<const float> update) {
  const double parameters = std::sqrt(kernels::sum_squares(p)), length = std::sqrt(kernels::sum_squares(update));
  return parameters == 0 || length == 0 ? 1 : parameters / length;
}

class Lamb final : public Optimiser {
 public:
  Lamb(const LambOptions& options, const Layout& layout)
      : options_(options), tensors_(layout), mean_(layout.size()), variance_(layout.size()) {}

  void begin_step(std::uint64_t step) override { step_ = step; }

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, mean_.size());
    for (const Tensors::Tensor& tensor : tensors_.within(begin, mean.size())) {
      const auto p = parameters.subspan(tensor.range.begin - begin, tensor.range.size());
      const auto update = mean.subspan(tensor.range.begin - begin, tensor.range.size());
      const bool adapts = !tensor.vector || options_.adapt_vectors;
      make_update(update, p, tensor.range.begin, adapts ? options_.weight_decay : 0);
      const auto rate = static_cast<float>(adapts ? lr * ratio_of_lengths(p, update) : lr);
      for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * update[i];
    }
  }

  bool needs_whole_tensors() const override { return true; }
  void visit_state(StateVisitor& visitor) override {
    visit_vector(visitor, "mean", mean_);
    visit_vector(visitor, "variance", variance_);
  }
  bool may_reset_buffers() const override { return !options_.bias_correction; }

 private:
  // Replaces a tensor's gradient by its u.
  void make_update(std::span<float> gradient, std::span<const float> p, std::size_t begin, double weight_decay) {
    const auto t = static_cast<double>(step_ + 1);
    const bool corrects = options_.bias_correction;
    const auto scale = static_cast<float>(corrects ? 1 / (1 - std::pow(options_.beta1, t)) : 1);
    const auto root = static_cast<float>(corrects ? std::sqrt(1 - std::pow(options_.beta2, t)) : 1);
    const auto new1 = static_cast<float>(1 - options_.beta1);
    const auto beta2 = static_cast<float>(options_.beta2), new2 = static_cast<float>(1 - options_.beta2);
    const auto eps = static_cast<float>(options_.eps);
    const auto decay = static_cast<float>(weight_decay);
    float* m = mean_.data() + begin;
    float* v = variance_.data() + begin;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const float g = gradient[i];
      m[i] += new1 * (g - m[i]);
      v[i] = beta2 * v[i] + new2 * g * g;
      gradient[i] = scale * m[i] / (std::sqrt(v[i]) / root + eps) + decay * p[i];
    }
  }

  LambOptions options_;
  Tensors tensors_;
  std::uint64_t step_ = 0;
  std::vector<float> mean_, variance_;  // running means of the gradients and of their squares
};

}  // namespace

std::unique_ptr<Optimiser> make_lamb(const LambOptions& options, const Layout& layout) {
  return std::make_unique<Lamb>(options, layout);
}

}  // namespace sotto
