#include "sotto/kernels/clusters.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/clusters.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/load.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

// Binary search over the 2^w possible symbols.
void find_clusters(std::span<const float> values, std::span<const float> boundaries, std::span<std::uint16_t> symbols) {
  const auto most = static_cast<std::uint32_t>(boundaries.size() + 1) / 2;
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const VF value = load_floats(&values[i]);
    VI place = hn::Zero(I32());
    for (std::uint32_t half = most; half > 0; half /= 2) {
      const VI step = hn::Set(I32(), static_cast<std::int32_t>(half));
      const VI middle = hn::Add(place, hn::Sub(step, hn::Set(I32(), 1)));
      const VF boundary = hn::GatherIndex(F32(), boundaries.data(), middle);
      place = hn::Add(place, hn::IfThenElseZero(hn::RebindMask(I32(), hn::Gt(value, boundary)), step));
    }
    hn::StoreU(hn::DemoteTo(U16(), place), U16(), &symbols[i]);
  }
  for (; i < values.size(); ++i) {
    std::uint32_t place = 0;
    for (std::uint32_t half = most; half > 0; half /= 2) {
      if (values[i] > boundaries[place + half - 1]) place += half;
    }
    symbols[i] = static_cast<std::uint16_t>(place);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(find_clusters);

void find_clusters(std::span<const float> values, std::span<const float> boundaries, std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(find_clusters)(values, boundaries, symbols);
}

void add_to_buckets(std::span<const float> values, std::span<const std::uint16_t> symbols, std::size_t first,
                    std::span<const Table> tables, std::span<BucketSum> buckets) {
  for (std::size_t j = 0; j < values.size(); ++j) {
    BucketSum& bucket = buckets[tables[symbols[j]].bucket(first + j)];
    bucket.sum += static_cast<double>(values[j]);
    ++bucket.count;
  }
}

void add_to_waiting(std::span<const float> values, std::span<const std::uint16_t> symbols, std::size_t first,
                    std::span<const Table> tables, std::uint64_t chunk, std::span<BucketSum> buckets,
                    std::span<BucketSum> waiting) {
  for (std::size_t j = 0; j < values.size(); ++j) {
    const std::size_t b = tables[symbols[j]].bucket(first + j);
    if (waiting[b].count != chunk) {
      buckets[b].sum += waiting[b].sum;
      waiting[b] = {0, chunk};
    }
    waiting[b].sum += static_cast<double>(values[j]);
    ++buckets[b].count;
  }
}

void add_buckets(std::span<const std::uint16_t> symbols, std::size_t first, std::span<const Table> tables,
                 std::span<const std::byte> buckets, float scale, std::span<float> out) {
  for (std::size_t j = 0; j < out.size(); ++j) {
    out[j] += scale * load<float>(buckets.data(), tables[symbols[j]].bucket(first + j));
  }
}

void add_centres(std::span<const std::uint16_t> symbols, std::span<const std::byte> centres, float scale,
                 std::span<float> out) {
  for (std::size_t j = 0; j < out.size(); ++j) out[j] += scale * load<float>(centres.data(), symbols[j]);
}

}  // namespace sotto::kernels
#endif
