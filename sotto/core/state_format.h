#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// What StateWriter and StateReader have in common; state_file.h has the format.
namespace sotto::state_format {

inline constexpr std::string_view magic = "sottosta";
inline constexpr std::uint32_t version = 2;
inline constexpr std::size_t head_bytes = 8 + 4;         // before the text
inline constexpr std::size_t trailer_bytes = 1 + 8 + 4;  // behind the last section

enum Kind : std::uint8_t { end = 0, floats = 1, bytes = 2, number = 3 };

}  // namespace sotto::state_format
