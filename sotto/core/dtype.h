#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace sotto {

// Element types that a collective can reduce.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i32, i64, u8 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::u8: return "u8";
  }
  return "?";
}

// The largest number of f32, f16 or bf16.
constexpr double largest(DType type) {
  if (type == DType::f16) return 65504;
  return type == DType::bf16 ? 0x1.FEp127 : std::numeric_limits<float>::max();
}

}  // namespace sotto
