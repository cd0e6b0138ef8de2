#include "sotto/codec/transform/hard_thresholding.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "sotto/kernels/element.h"
#include "sotto/kernels/vector.h"

namespace sotto {

HardThresholding::HardThresholding(std::size_t size, std::span<const std::uint32_t> rows, std::size_t keep,
                                   std::size_t iterations)
    : size_(size),
      keep_(keep),
      iterations_(iterations),
      rows_(rows.begin(), rows.end()),
      measured_(size * most),
      found_(size * most),
      residual_(size * most),
      gradient_(size * most),
      tried_(size * most),
      work_(size * most),
      lanes_(size * most),
      order_(size) {}

void HardThresholding::transform(std::vector<float>& all) {
  kernels::to_lanes(all, size_, lanes_);
  kernels::hadamard(lanes_, size_);
  kernels::from_lanes(lanes_, size_, all);
  kernels::scale(1 / std::sqrt(static_cast<float>(size_)), all);
}

double HardThresholding::square_on_rows(std::span<const float> coefficients) const {
  double sum = 0;
  for (const std::uint32_t row : rows_) sum += static_cast<double>(coefficients[row]) * coefficients[row];
  return sum;
}

// Ties go to the first elements.
void HardThresholding::keep_largest(std::span<float> values) {
  std::ranges::transform(values, order_.begin(), kernels::element::magnitude_bits);
  const auto last = order_.begin() + static_cast<std::ptrdiff_t>(keep_ - 1);
  std::ranges::nth_element(order_, last, std::greater());
  const std::uint32_t least = *last;
  auto equal = keep_ - static_cast<std::size_t>(std::count_if(order_.begin(), last, [&](auto x) { return x > least; }));
  for (float& value : values) {
    const std::uint32_t own = kernels::element::magnitude_bits(value);
    if (own > least) continue;
    if (own == least && equal > 0) {
      --equal;
    } else {
      value = 0;
    }
  }
}

// The direction has the elements of the vector found so far or, at first, the largest elements of the gradient.
void HardThresholding::set_direction(std::size_t v) {
  const auto found = of(found_, v), direction = of(work_, v);
  std::ranges::copy(of(gradient_, v), direction.begin());
  if (!vectors_[v].begun) {
    keep_largest(direction);
  } else {
    for (std::size_t i = 0; i < size_; ++i) {
      if (found[i] == 0) direction[i] = 0;
    }
  }
  vectors_[v].along = 0;
  for (const float x : direction) vectors_[v].along += static_cast<double>(x) * x;
}

void HardThresholding::try_step(std::size_t v) {
  const auto found = of(found_, v), gradient = of(gradient_, v), tried = of(tried_, v);
  const double change = square_on_rows(of(work_, v));
  const float length = change > 0 ? vectors_[v].length * static_cast<float>(vectors_[v].along / change) : 0.0F;
  for (std::size_t i = 0; i < size_; ++i) tried[i] = found[i] + length * gradient[i];
  keep_largest(tried);
}

void HardThresholding::take_step(std::size_t v) {
  if (vectors_[v].done()) return;  // so the result does not depend on how long other vectors take
  const auto residual = of(residual_, v), after = of(work_, v), measured = of(measured_, v);
  for (const std::uint32_t row : rows_) after[row] = measured[row] - after[row];
  const double left = square_on_rows(after);
  Vector& vector = vectors_[v];
  if (!(left < vector.left)) {
    vector.length /= 2;
    return;
  }
  vector = {.left = left, .begun = true};
  std::ranges::copy(of(tried_, v), of(found_, v).begin());
  for (const std::uint32_t row : rows_) residual[row] = after[row];
}

std::span<const float> HardThresholding::recover(std::span<const float> measured) {
  const std::size_t count = measured.size() / rows_.size();
  std::ranges::fill(found_, 0.0F);
  std::ranges::fill(measured_, 0.0F);
  vectors_.fill({});
  for (std::size_t v = 0; v < count; ++v) {
    for (std::size_t j = 0; j < rows_.size(); ++j) of(measured_, v)[rows_[j]] = measured[v * rows_.size() + j];
    vectors_[v].left = square_on_rows(of(measured_, v));
  }
  residual_ = measured_;
  for (std::size_t i = 0; i < iterations_; ++i) {
    if (std::ranges::all_of(vectors_, [](const Vector& vector) { return vector.done(); })) break;
    gradient_ = residual_;
    transform(gradient_);
    for (std::size_t v = 0; v < count; ++v) set_direction(v);
    transform(work_);
    for (std::size_t v = 0; v < count; ++v) try_step(v);
    work_ = tried_;
    transform(work_);
    for (std::size_t v = 0; v < count; ++v) take_step(v);
  }
  return std::span(found_).first(count * size_);
}

}  // namespace sotto
