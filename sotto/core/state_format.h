#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// Constants of the format of StateWriter and StateReader; state_file.h describes it.
namespace sotto::state_format {

inline constexpr std::string_view magic = "sottosta";
inline constexpr std::uint32_t version = 2;
inline constexpr std::size_t head_bytes = 8 + 4;         // before the text
inline constexpr std::size_t trailer_bytes = 1 + 8 + 4;  // after the last section

enum Kind : std::uint8_t { end = 0, floats = 1, bytes = 2, number = 3 };

}  // namespace sotto::state_format
