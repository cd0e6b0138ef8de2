#include "sotto/kernels/matrix.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto::kernels {
namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t together = 4;  // vectors that share one reading of the matrix
constexpr std::size_t tile = 1024;   // columns whose sums stay in the nearest cache

template <class Real>
Real fold(std::array<Real, lanes>& sum) {
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  }
  return sum[0];
}

// out[v] = row . vector v
template <std::size_t N>
void dots(const float* row, const std::array<const float*, together>& vectors, std::size_t length,
          std::array<float, together>& out) {
  std::array<std::array<float, lanes>, N> sum{};
  const std::size_t whole = length / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    for (std::size_t v = 0; v < N; ++v) {
      for (std::size_t lane = 0; lane < lanes; ++lane) sum[v][lane] += row[i + lane] * vectors[v][i + lane];
    }
  }
  for (std::size_t v = 0; v < N; ++v) {
    for (std::size_t i = whole; i < length; ++i) sum[v][i - whole] += row[i] * vectors[v][i];
    out[v] = fold(sum[v]);
  }
}

void dots(std::size_t count, const float* row, const std::array<const float*, together>& vectors, std::size_t length,
          std::array<float, together>& out) {
  switch (count) {
    case 1: return dots<1>(row, vectors, length, out);
    case 2: return dots<2>(row, vectors, length, out);
    case 3: return dots<3>(row, vectors, length, out);
    default: return dots<4>(row, vectors, length, out);
  }
}

// out += sum over v of factors[v] * vectors[v], the first of them first.
template <std::size_t N>
void add_combination(const std::array<float, together>& factors, const std::array<const float*, together>& vectors,
                     std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    float value = out[i];
    for (std::size_t v = 0; v < N; ++v) value += factors[v] * vectors[v][i];
    out[i] = value;
  }
}

void add_combination(std::size_t count, const std::array<float, together>& factors,
                     const std::array<const float*, together>& vectors, std::span<float> out) {
  switch (count) {
    case 1: return add_combination<1>(factors, vectors, out);
    case 2: return add_combination<2>(factors, vectors, out);
    case 3: return add_combination<3>(factors, vectors, out);
    default: return add_combination<4>(factors, vectors, out);
  }
}

void remove_earlier(Vectors vectors, std::size_t k, std::size_t length) {
  const auto vector = vectors.at(k, length);
  for (std::size_t j = 0; j < k; ++j) {
    const auto earlier = vectors.at(j, length);
    axpy(-static_cast<float>(dot(earlier, vector)), earlier, vector);
  }
}

// Scales to length 1; false, and zero, when nothing is left of a vector of length `before`.
bool normalise(std::span<float> vector, double before) {
  const double norm = std::sqrt(sum_squares(vector));
  if (!(norm > 1e-6 * before) || !std::isfinite(norm)) {
    std::ranges::fill(vector, 0.0F);
    return false;
  }
  for (float& value : vector) value = static_cast<float>(value / norm);
  return true;
}

}  // namespace

double dot(std::span<const float> a, std::span<const float> b) {
  std::array<double, lanes> sum{};
  const std::size_t whole = a.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sum[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
  }
  for (std::size_t i = whole; i < a.size(); ++i) sum[i - whole] += static_cast<double>(a[i]) * b[i];
  return fold(sum);
}

void multiply(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in, Vectors out) {
  std::array<const float*, together> vectors{};
  std::array<float, together> sums{};
  for (std::size_t k = 0; k < in.count; k += together) {
    const std::size_t count = std::min(together, in.count - k);
    for (std::size_t v = 0; v < count; ++v) vectors[v] = in.data + (k + v) * in.stride;
    for (std::size_t row = 0; row < rows; ++row) {
      dots(count, matrix.data() + row * cols, vectors, cols, sums);
      for (std::size_t v = 0; v < count; ++v) out.data[(k + v) * out.stride + row] = sums[v];
    }
  }
}

void multiply_transposed(std::span<const float> matrix, std::size_t rows, std::size_t cols, ConstVectors in,
                         Vectors out) {
  std::array<const float*, together> lines{};
  std::array<float, together> factors{};
  for (std::size_t begin = 0; begin < cols; begin += tile) {
    const std::size_t width = std::min(tile, cols - begin);
    for (std::size_t k = 0; k < out.count; ++k) std::ranges::fill(out.at(k, cols).subspan(begin, width), 0.0F);
    for (std::size_t row = 0; row < rows; row += together) {
      const std::size_t count = std::min(together, rows - row);
      for (std::size_t v = 0; v < count; ++v) lines[v] = matrix.data() + (row + v) * cols + begin;
      for (std::size_t k = 0; k < out.count; ++k) {
        for (std::size_t v = 0; v < count; ++v) factors[v] = in.data[k * in.stride + row + v];
        add_combination(count, factors, lines, out.at(k, cols).subspan(begin, width));
      }
    }
  }
}

void add_outer(float scale, ConstVectors left, ConstVectors right, std::size_t rows, std::size_t cols,
               std::span<float> matrix) {
  std::array<const float*, together> vectors{};
  std::array<float, together> factors{};
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < left.count; k += together) {
      const std::size_t count = std::min(together, left.count - k);
      for (std::size_t v = 0; v < count; ++v) {
        vectors[v] = right.data + (k + v) * right.stride;
        factors[v] = scale * left.data[(k + v) * left.stride + row];
      }
      add_combination(count, factors, vectors, matrix.subspan(row * cols, cols));
    }
  }
}

void orthonormalise(Vectors vectors, std::size_t length) {
  std::size_t unit = 0;  // the next unit vector to try
  for (std::size_t k = 0; k < vectors.count; ++k) {
    const auto vector = vectors.at(k, length);
    double before = std::sqrt(sum_squares(vector));
    while (true) {
      remove_earlier(vectors, k, length);
      // The second time, what rounding left of the others in a short remainder goes, too.
      if (normalise(vector, before)) {
        remove_earlier(vectors, k, length);
        if (normalise(vector, 0.5)) break;
      }
      if (unit == length) break;
      vector[unit++] = 1.0F;
      before = 1e3;  // a unit vector must keep a thousandth of its length
    }
  }
}

}  // namespace sotto::kernels
