#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sotto {

// An array of bytes in the IDX format: two zero bytes, the element type (8: byte), the number of dimensions, each
// dimension as 32 bits big-endian, then the elements, the last dimension fastest.
struct Idx {
  std::vector<std::uint32_t> shape;
  std::vector<std::uint8_t> values;
};

// Reads a file, unpacking it when it is gzipped. FileError, which names the file and the reason, unless it is exactly
// one complete array of bytes with this number of dimensions.
Idx read_idx(const std::filesystem::path& path, std::size_t dimensions);
// REQUIRES as many values as the shape says.
void write_idx(const std::filesystem::path& path, const Idx& idx);

}  // namespace sotto
