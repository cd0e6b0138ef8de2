#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sotto::test {

inline std::uint32_t crc32(std::string_view text) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : text) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ (crc % 2 == 1 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

// A line with name and shape for each tensor, except batch norm's counters.
std::string lines(const auto& tensors) {
  std::string text;
  for (const auto& item : tensors) {
    if (item.key().ends_with("num_batches_tracked")) continue;
    text += item.key() + ' ';
    for (std::int64_t i = 0; i < item.value().dim(); ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(item.value().size(i));
    }
    text += '\n';
  }
  return text;
}

}  // namespace sotto::test
