#include "sotto/kernels/bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/trits.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

constexpr std::size_t per_byte = 5;
constexpr std::size_t group_bytes = trit_group / per_byte;

HWY_INLINE hn::Vec<U16> times_three(hn::Vec<U16> x) { return hn::Add(hn::Add(x, x), x); }

void pack_trits(std::span<const std::uint16_t> symbols, std::span<std::byte> out) {
  const std::uint16_t* in = symbols.data();
  std::size_t left = symbols.size();
  std::size_t at = 0;
  for (; left >= trit_group; left -= trit_group, in += trit_group, at += group_bytes) {
    for (std::size_t j = 0; j < group_bytes; j += lanes) {
      auto sum = hn::LoadU(U16(), in + j + 4 * group_bytes);
      for (std::size_t k = 4; k-- > 0;) sum = hn::Add(times_three(sum), hn::LoadU(U16(), in + j + k * group_bytes));
      store_bytes(U8(), hn::TruncateTo(U8(), sum), &out[at + j]);
    }
  }
  const std::size_t n = trit_bytes(left);
  for (std::size_t j = 0; j < n; ++j) {
    unsigned sum = 0;
    for (std::size_t k = per_byte; k-- > 0;) sum = 3 * sum + (j + k * n < left ? in[j + k * n] : 0U);
    out[at + j] = static_cast<std::byte>(sum);
  }
}

void unpack_trits(std::span<const std::byte> in, std::span<std::uint16_t> symbols) {
  const auto third =
      hn::Set(U16(), std::uint16_t{171});  // times 171 / 512, rounded down, is exactly a third, rounded down
  std::uint16_t* out = symbols.data();
  std::size_t left = symbols.size();
  std::size_t at = 0;
  for (; left >= trit_group; left -= trit_group, out += trit_group, at += group_bytes) {
    for (std::size_t j = 0; j < group_bytes; j += lanes) {
      auto rest = hn::PromoteTo(U16(), load_bytes(U8(), &in[at + j]));
      for (std::size_t k = 0; k < 4; ++k) {
        const auto next = hn::ShiftRight<9>(hn::Mul(rest, third));
        hn::StoreU(hn::Sub(rest, times_three(next)), U16(), out + j + k * group_bytes);
        rest = next;
      }
      hn::StoreU(rest, U16(), out + j + 4 * group_bytes);
    }
  }
  const std::size_t n = trit_bytes(left);
  for (std::size_t j = 0; j < n; ++j) {
    auto rest = std::to_integer<unsigned>(in[at + j]);
    for (std::size_t k = 0; k < per_byte && j + k * n < left; ++k, rest /= 3) {
      out[j + k * n] = static_cast<std::uint16_t>(rest % 3);
    }
  }
}

bool valid_trits(std::span<const std::byte> in, std::size_t symbols) {
  const hn::CappedTag<std::uint8_t, 64> d;
  const std::size_t step = hn::Lanes(d);
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + step <= in.size(); i += step) most = hn::Max(most, load_bytes(d, &in[i]));
  const auto limit = hn::Set(d, 242);
  bool good = hn::AllTrue(d, hn::Eq(hn::Max(most, limit), limit));
  for (; i < in.size(); ++i) good = good && std::to_integer<unsigned>(in[i]) < 243;
  const std::size_t left = symbols % trit_group;
  const std::size_t n = trit_bytes(left);
  for (std::size_t j = 0; j < n; ++j) {
    auto rest = std::to_integer<unsigned>(in[in.size() - n + j]);
    for (std::size_t k = 0; k < per_byte && j + k * n < left; ++k) rest /= 3;
    good = good && rest == 0;
  }
  return good;
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(pack_trits);
HWY_EXPORT(unpack_trits);
HWY_EXPORT(valid_trits);

void pack_trits(std::span<const std::uint16_t> symbols, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(pack_trits)(symbols, out);
}
void unpack_trits(std::span<const std::byte> in, std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(unpack_trits)(in, symbols);
}
bool valid_trits(std::span<const std::byte> in, std::size_t symbols) {
  return HWY_DYNAMIC_DISPATCH(valid_trits)(in, symbols);
}

}  // namespace sotto::kernels
#endif
