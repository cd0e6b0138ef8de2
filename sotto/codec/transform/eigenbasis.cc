#include "sotto/codec/transform/eigenbasis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sotto {

void Eigenbasis::reserve(std::size_t n, Tridiagonal& kept) {
  kept.diagonal.reserve(n);
  kept.off.reserve(n);
  kept.reflections.reserve(n * n / 2);
  gram_.room(n * n);
  packed_.room(kernels::packed_gram_size(n));
  batch_.room(n * kernels::eigenvector_batch);
  diagonal_.room(n);
  off_.room(n);
  rotation_room_.room(kernels::usual_rotations(n));
  sweep_room_.room(kernels::usual_sweeps(n));
  order_.room(n);
}

bool Eigenbasis::find(ThreadPool& pool, const kernels::GramInput& matrix, Tridiagonal& kept, std::span<double> values) {
  const std::size_t n = matrix.rows;
  const std::size_t panels = (n + kernels::gram_panel - 1) / kernels::gram_panel;
  const auto gram = gram_.room(n * n);
  const auto packed = packed_.room(kernels::packed_gram_size(n));
  std::ranges::fill(gram, 0.0);
  for (std::size_t begin = 0; begin < matrix.columns; begin += kernels::gram_depth) {
    const std::size_t depth = std::min(kernels::gram_depth, matrix.columns - begin);
    pool.run(panels, [&](std::size_t i) { kernels::pack_gram(matrix, i, begin, depth, packed.data()); });
    // The last panels take the longest, so they come first.
    pool.run(panels, [&](std::size_t i) { kernels::add_gram(packed.data(), n, panels - 1 - i, depth, gram.data()); });
  }
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) trace += gram[i * n + i];
  if (!std::isfinite(trace)) return false;

  reserve(n, kept);
  kept.diagonal.resize(n);
  kept.off.resize(n);
  kept.reflections.resize(n * (n - 1) / 2);
  kernels::tridiagonalise(gram, n, kept.diagonal, kept.off, batch_.room(n * kernels::eigenvector_batch));
  for (std::size_t i = 1; i < n; ++i) {
    // Floats suffice, as any vector defines an exact reflection. It is scaled to length 1, since squares might
    // overflow.
    const auto row = gram.subspan(i * n, i);
    double most = 0;
    for (const double x : row) most = std::max(most, std::abs(x));
    float* out = kept.reflections.data() + i * (i - 1) / 2;
    for (std::size_t k = 0; k < i; ++k) out[k] = most > 0 ? static_cast<float>(row[k] / most) : 0.0F;
  }
  const auto order = diagonalise(kept);
  for (std::size_t i = 0; i < n; ++i) values[i] = diagonal_.data()[order[i]];
  return true;
}

std::span<const std::uint32_t> Eigenbasis::diagonalise(const Tridiagonal& kept) {
  const std::size_t n = kept.diagonal.size();
  const auto diagonal = diagonal_.room(n);
  const auto off = off_.room(n);
  std::ranges::copy(kept.diagonal, diagonal.begin());
  std::ranges::copy(kept.off, off.begin());
  rotations_ = {rotation_room_.room(kernels::usual_rotations(n)), sweep_room_.room(kernels::usual_sweeps(n))};
  kernels::diagonalise(diagonal, off, rotations_);
  const auto order = order_.room(n);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return diagonal[a] != diagonal[b] ? diagonal[a] > diagonal[b] : a < b;
  });
  return order;
}

void Eigenbasis::write(const Tridiagonal& kept, std::span<const std::uint32_t> numbers, kernels::Vectors out) {
  constexpr std::size_t batch = kernels::eigenvector_batch;
  if (numbers.empty()) return;
  const std::size_t n = kept.diagonal.size();
  const auto order = diagonalise(kept);
  const auto vectors = batch_.room(n * batch);
  for (std::size_t begin = 0; begin < numbers.size(); begin += batch) {
    const auto some = numbers.subspan(begin, std::min(batch, numbers.size() - begin));
    std::ranges::fill(vectors, 0.0);
    for (std::size_t j = 0; j < some.size(); ++j) vectors[order[some[j]] * batch + j] = 1;
    kernels::make_eigenvectors(rotations_, kept.reflections, n, vectors);
    for (std::size_t j = 0; j < some.size(); ++j) {
      const auto target = out.at(begin + j, n);
      for (std::size_t i = 0; i < n; ++i) target[i] = static_cast<float>(vectors[i * batch + j]);
    }
  }
}

}  // namespace sotto
