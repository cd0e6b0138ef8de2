#include "sotto/kernels/int8.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "sotto/kernels/load.h"

namespace sotto::kernels {

void to_int8(std::span<const float> values, float norm, std::span<std::byte> out) {
  if (norm == 0.0F) {
    std::fill_n(out.begin(), values.size(), std::byte{0});
    return;
  }
  constexpr float round = 0x1.8p23F;  // adding it leaves no room for a fraction: the addition rounds, ties to even
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float q = (values[i] / norm * 127.0F + round) - round;
    store(out.data(), i, static_cast<std::int8_t>(static_cast<std::int32_t>(q)));
  }
}

void to_int8_stochastic(std::span<const float> values, float norm, const Draws& draws, std::span<std::byte> out) {
  constexpr std::size_t chunk = 512;
  std::array<std::uint16_t, chunk> symbols;
  for (std::size_t begin = 0; begin < values.size(); begin += chunk) {
    const std::size_t count = std::min(chunk, values.size() - begin);
    stochastic_levels(values.subspan(begin, count), norm, 127, 128, draws.part(begin, count), symbols);
    for (std::size_t j = 0; j < count; ++j) {
      const int level = symbols[j] & 127;
      store(out.data(), begin + j, static_cast<std::int8_t>((symbols[j] & 128) != 0 ? -level : level));
    }
  }
}

void add_int8(std::span<const std::byte> in, float norm, float scale, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto q = static_cast<float>(load<std::int8_t>(in.data(), i));
    out[i] += scale * (norm * (q / 127.0F));
  }
}

bool valid_int8(std::span<const std::byte> in) {
  unsigned char bad = 0;
  for (std::size_t i = 0; i < in.size(); ++i) bad |= static_cast<unsigned char>(in[i] == std::byte{0x80});
  return bad == 0;
}

}  // namespace sotto::kernels
