#include "sotto/kernels/symmetric.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/symmetric.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/kernels/lane_sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

constexpr std::size_t width = hn::MaxLanes(F64());
constexpr std::size_t vectors_of_sum = sum_lanes / width;
constexpr std::size_t vectors_of_batch = eigenvector_batch / width;

HWY_INLINE VD load(const double* from) { return hn::LoadU(F64(), from); }
HWY_INLINE VD all(double value) { return hn::Set(F64(), value); }

// The reflection of the previous step, which subtracts v w^T + w v^T from the matrix, and the next one.
struct Reflections {
  const double* v;  // null: no previous reflection
  const double* w;
  const double* next;
  double* product;  // of the matrix and `next`
};

// row[0 .. j) -= v[j] w + w[j] v; product[0 .. j) += next[j] row; returns the sum of next[k] row[k].
HWY_INLINE double reflect_row(double* row, std::size_t j, const Reflections& r) {
  VD sums[vectors_of_sum];
  for (VD& sum : sums) sum = hn::Zero(F64());
  const bool had = r.v != nullptr;
  const VD v = all(had ? r.v[j] : 0), w = all(had ? r.w[j] : 0), next = all(r.next[j]);
  const std::size_t whole = j / sum_lanes * sum_lanes;
  for (std::size_t k = 0; k < whole; k += sum_lanes) {
    for (std::size_t s = 0; s < vectors_of_sum; ++s) {
      const std::size_t at = k + s * width;
      VD x = load(row + at);
      if (had) {
        x = hn::Sub(x, hn::Add(hn::Mul(v, load(r.w + at)), hn::Mul(w, load(r.v + at))));
        hn::StoreU(x, F64(), row + at);
      }
      sums[s] = hn::Add(sums[s], hn::Mul(x, load(r.next + at)));
      hn::StoreU(hn::Add(load(r.product + at), hn::Mul(next, x)), F64(), r.product + at);
    }
  }
  double sum[sum_lanes];
  for (std::size_t s = 0; s < vectors_of_sum; ++s) hn::StoreU(sums[s], F64(), sum + s * width);
  for (std::size_t k = whole; k < j; ++k) {
    if (had) row[k] -= r.v[j] * r.w[k] + r.w[j] * r.v[k];
    sum[k - whole] += row[k] * r.next[k];
    r.product[k] += r.next[j] * row[k];
  }
  return fold(sum);
}

// Applies the previous reflection to all rows below `count`, and computes their product with the next one.
void reflect(double* matrix, std::size_t n, std::size_t count, const double* v, const double* w, const double* next,
             double* product) {
  const Reflections r{v, w, next, product};
  std::fill_n(product, count, 0.0);
  for (std::size_t j = 0; j < count; ++j) {
    double* row = matrix + j * n;
    const double sum = reflect_row(row, j, r);
    if (v != nullptr) row[j] -= 2 * (v[j] * w[j]);
    product[j] += sum + row[j] * next[j];
  }
}

// Applies the rotations of a sweep, the last one first: x_i, x_i+1 -> c x_i + s x_i+1, c x_i+1 - s x_i.
void turn(const Rotation* rotations, std::size_t count, double* rows) {
  VD upper[vectors_of_batch];
  for (std::size_t b = 0; b < vectors_of_batch; ++b) upper[b] = load(rows + b * width);
  for (std::size_t i = count; i > 0; --i, rows += eigenvector_batch) {
    const VD c = all(rotations[i - 1].cosine), s = all(rotations[i - 1].sine);
    for (std::size_t b = 0; b < vectors_of_batch; ++b) {
      const VD lower = load(rows + eigenvector_batch + b * width);
      hn::StoreU(hn::Add(hn::Mul(c, upper[b]), hn::Mul(s, lower)), F64(), rows + b * width);
      upper[b] = hn::Sub(hn::Mul(c, lower), hn::Mul(s, upper[b]));
    }
  }
  for (std::size_t b = 0; b < vectors_of_batch; ++b) hn::StoreU(upper[b], F64(), rows + b * width);
}

// Reflects all columns of `rows` at a vector of `count` floats.
void mirror(const float* vector, std::size_t count, double* rows) {
  VD sums[vectors_of_batch];
  for (VD& sum : sums) sum = hn::Zero(F64());
  double square = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const double v = vector[k];
    square += v * v;
    for (std::size_t b = 0; b < vectors_of_batch; ++b) {
      sums[b] = hn::Add(sums[b], hn::Mul(all(v), load(rows + k * eigenvector_batch + b * width)));
    }
  }
  if (!(square > 0)) return;
  for (VD& sum : sums) sum = hn::Mul(sum, all(2 / square));
  for (std::size_t k = 0; k < count; ++k) {
    const VD v = all(vector[k]);
    for (std::size_t b = 0; b < vectors_of_batch; ++b) {
      double* at = rows + k * eigenvector_batch + b * width;
      hn::StoreU(hn::Sub(load(at), hn::Mul(v, sums[b])), F64(), at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(reflect);
HWY_EXPORT(turn);
HWY_EXPORT(mirror);

void tridiagonalise(std::span<double> matrix, std::size_t n, std::span<double> diagonal, std::span<double> off,
                    std::span<double> room) {
  double* product = room.data();
  double* former = room.data() + n;  // w of the previous step
  const double* v = nullptr;
  const double* w = nullptr;
  for (std::size_t i = n; i-- > 0;) {
    double* row = matrix.data() + i * n;
    if (v != nullptr) {
      for (std::size_t k = 0; k <= i; ++k) row[k] -= v[i] * w[k] + w[i] * v[k];
    }
    diagonal[i] = row[i];
    if (i == 0) break;
    // Finds the vector whose reflection takes row[0 .. i) to a multiple of the last unit vector.
    double beside = 0;
    for (std::size_t k = 0; k + 1 < i; ++k) beside += row[k] * row[k];
    const double last = row[i - 1];
    double half = 0;  // |v|^2 / 2
    if (beside > 0) {
      const double norm = std::sqrt(beside + last * last);
      off[i - 1] = last > 0 ? -norm : norm;
      row[i - 1] = last - off[i - 1];
      half = norm * norm - last * off[i - 1];
    } else {
      off[i - 1] = last;
      row[i - 1] = 0;
    }
    HWY_DYNAMIC_DISPATCH(reflect)(matrix.data(), n, i, v, w, row, product);
    double share = 0;
    for (std::size_t k = 0; half > 0 && k < i; ++k) {
      product[k] /= half;
      share += row[k] * product[k];
    }
    v = nullptr;
    if (half > 0) {
      share /= 2 * half;
      for (std::size_t k = 0; k < i; ++k) product[k] -= share * row[k];
      v = row;
    }
    std::swap(product, former);
    w = former;
  }
}

void diagonalise(std::span<double> diagonal, std::span<double> off, Rotations& rotations) {
  const std::size_t n = diagonal.size();
  double* d = diagonal.data();
  double* e = off.data();
  rotations.rotation_count = rotations.sweep_count = 0;
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(d[i]) + (i + 1 < n ? std::abs(e[i]) : 0));
  const double tiny = std::numeric_limits<double>::epsilon() * largest;
  for (std::size_t l = 0; l + 1 < n;) {
    std::size_t m = l;
    while (m + 1 < n && std::abs(e[m]) > tiny) ++m;
    if (m == l) {
      ++l;
      continue;
    }
    if (rotations.rotations.size() - rotations.rotation_count < m - l) return;
    if (rotations.sweep_count == rotations.sweeps.size()) return;
    double g = (d[l + 1] - d[l]) / (2 * e[l]);
    const double r0 = std::sqrt(g * g + 1);
    g = d[m] - d[l] + e[l] / (g + std::copysign(r0, g));
    double s = 1, c = 1, p = 0;
    std::size_t count = 0;
    bool split = false;
    for (std::size_t i = m; i-- > l;) {
      const double f = s * e[i];
      const double b = c * e[i];
      double r = std::sqrt(f * f + g * g);
      if (i + 1 < m) e[i + 1] = r;
      if (!(r > 0)) {
        d[i + 1] -= p;
        split = true;
        break;
      }
      s = f / r;
      c = g / r;
      g = d[i + 1] - p;
      r = (d[i] - g) * s + 2 * c * b;
      p = s * r;
      d[i + 1] = g + p;
      g = c * r - b;
      rotations.rotations[rotations.rotation_count++] = {c, s};
      ++count;
    }
    rotations.sweeps[rotations.sweep_count++] = {static_cast<std::uint32_t>(m - 1), static_cast<std::uint32_t>(count)};
    if (m + 1 < n) e[m] = 0;
    if (split) continue;
    d[l] -= p;
    e[l] = g;
  }
}

void make_eigenvectors(const Rotations& rotations, std::span<const float> packed, std::size_t n,
                       std::span<double> vectors) {
  std::size_t rotation = rotations.rotation_count;
  for (std::size_t i = rotations.sweep_count; i-- > 0;) {
    const Sweep& sweep = rotations.sweeps[i];
    rotation -= sweep.count;
    const std::size_t first = std::size_t{sweep.last} + 1 - sweep.count;
    HWY_DYNAMIC_DISPATCH(turn)
    (rotations.rotations.data() + rotation, sweep.count, vectors.data() + first * eigenvector_batch);
  }
  for (std::size_t i = 1; i < n; ++i) HWY_DYNAMIC_DISPATCH(mirror)(packed.data() + i * (i - 1) / 2, i, vectors.data());
}

}  // namespace sotto::kernels
#endif
