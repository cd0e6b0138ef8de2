// Sums of doubles in the lanes that reduce.h describes. Included once for every SIMD target.
#if defined(SOTTO_KERNELS_LANE_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOTTO_KERNELS_LANE_SUM_INL_H_
#undef SOTTO_KERNELS_LANE_SUM_INL_H_
#else
#define SOTTO_KERNELS_LANE_SUM_INL_H_
#endif

#include <span>

#include "sotto/kernels/element.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

using F64 = hn::CappedTag<double, 8>;
using VD = hn::Vec<F64>;

constexpr std::size_t sum_lanes = 16;

// The sum of all lanes. Overwrites the lanes.
template <class Real>
Real fold(Real* sum) {
  for (std::size_t half = sum_lanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  }
  return sum[0];
}

class LaneSum {
 public:
  // Adds sixteen values, one to each lane.
  template <class Term>
  HWY_INLINE void add(const float* values, Term term) {
    const hn::Rebind<float, F64> half;
    for (std::size_t j = 0; j < vectors; ++j) {
      sums_[j] = hn::Add(sums_[j], term(hn::PromoteTo(F64(), hn::LoadU(half, values + j * width))));
    }
  }
  // Adds the last values, fewer than sixteen, and returns the sum of all lanes.
  template <class Term>
  double finish(std::span<const float> values, Term term) const {
    double sum[sum_lanes];
    for (std::size_t j = 0; j < vectors; ++j) hn::StoreU(sums_[j], F64(), sum + j * width);
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += term(static_cast<double>(values[i]));
    return fold(sum);
  }

 private:
  static constexpr std::size_t width = hn::MaxLanes(F64());
  static constexpr std::size_t vectors = sum_lanes / width;
  VD sums_[vectors] = {};
};

struct Magnitude {
  HWY_INLINE VD operator()(VD x) const { return hn::Abs(x); }
  double operator()(double x) const { return x < 0 ? -x : x; }
};

// The sum of of(chunk, begin) over the chunks of reduce.h; `begin` is the index of the chunk's first value.
template <class Of>
HWY_INLINE double sum_of_chunks(std::span<const float> values, Of of) {
  double sum = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += sum_chunk) {
    sum += of(values.subspan(begin, values.size() - begin < sum_chunk ? values.size() - begin : sum_chunk), begin);
  }
  return sum;
}

template <class Term>
double lane_sum(std::span<const float> values, Term term) {
  return sum_of_chunks(values, [&](std::span<const float> chunk, std::size_t) {
    LaneSum sum;
    const std::size_t whole = chunk.size() / sum_lanes * sum_lanes;
    for (std::size_t i = 0; i < whole; i += sum_lanes) sum.add(&chunk[i], term);
    return sum.finish(chunk.subspan(whole), term);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#endif
