#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace sotto {

// An array of numbers in a file of MATLAB 5, packed or not; the first dimension varies fastest.
struct MatlabArray {
  std::vector<std::size_t> shape;
  std::uint32_t type = 0;         // the type of the stored numbers: MATLAB's miINT8 and so on
  std::vector<std::byte> values;  // as many as the shape says

  static constexpr std::uint32_t bytes_type = 2;  // miUINT8
  std::size_t size() const;
  double number(std::size_t index) const;
};

// Reads the variables of these names, in their order. Reads only real arrays of numbers, in the byte order of this
// machine. FileError, which names the file, if a variable is missing, or if the file is damaged, truncated or of
// another format. Packed files have checksums, others do not.
std::vector<MatlabArray> read_matlab(const std::filesystem::path& path, std::initializer_list<std::string_view> names);

}  // namespace sotto
