#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "app/data/images/dataset.h"
#include "app/data/images/pixels.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

// Files: "MAT-File Format", The MathWorks, chapter 1: Level 5 MAT-files.

enum DataType : std::uint32_t {
  int8_data = 1,
  uint8_data,
  int16_data,
  uint16_data,
  int32_data,
  uint32_data,
  single_data,
  double_data = 9,
  matrix_data = 14,
  packed_data = 15
};

// The bytes of a number of a type; 0 for types that are not numbers.
std::size_t bytes_of_type(std::uint32_t type) {
  constexpr std::array<std::size_t, 10> sizes{0, 1, 1, 2, 2, 4, 4, 4, 0, 8};
  return type < sizes.size() ? sizes[type] : 0;
}

// An array of numbers in a file of MATLAB 5, packed or not; the first dimension varies fastest.
struct MatlabArray {
  std::vector<std::size_t> shape;
  std::uint32_t type = 0;         // the type of the stored numbers: MATLAB's miINT8 and so on
  std::vector<std::byte> values;  // as many as the shape says

  std::size_t size() const { return values.size() / bytes_of_type(type); }
  double number(std::size_t index) const {
    switch (type) {
      case int8_data: return number_at<std::int8_t>(index);
      case uint8_data: return number_at<std::uint8_t>(index);
      case int16_data: return number_at<std::int16_t>(index);
      case uint16_data: return number_at<std::uint16_t>(index);
      case int32_data: return number_at<std::int32_t>(index);
      case uint32_data: return number_at<std::uint32_t>(index);
      case single_data: return number_at<float>(index);
      default: return number_at<double>(index);
    }
  }

 private:
  template <class T>
  double number_at(std::size_t index) const {
    T value;
    std::memcpy(&value, values.data() + index * sizeof(T), sizeof(T));
    return static_cast<double>(value);
  }
};

struct Element {
  std::uint32_t type;
  std::span<const std::byte> data;
};

// A short element has type, length and data in eight bytes. All elements except packed ones are filled up to a multiple
// of eight bytes.
Element next_element(ByteReader& reader, const char* what) {
  const auto type = reader.get<std::uint32_t>(what);
  if (type >> 16U != 0) {
    const std::size_t count = type >> 16U;
    const auto data = reader.take(4, what);
    if (count > 4) throw WireError(fmt::format("{} has {} bytes in place of at most 4", what, count));
    return {type & 0xFFFFU, data.first(count)};
  }
  const auto count = reader.get<std::uint32_t>(what);
  const auto data = reader.take(count, what);
  if (type != packed_data) reader.take(std::min<std::size_t>(reader.left(), (8 - count % 8) % 8), what);
  return {type, data};
}

template <class T>
std::vector<T> values_of(const Element& element, std::uint32_t type, const char* what) {
  if (element.type != type || element.data.size() % sizeof(T) != 0) {
    throw WireError(fmt::format("{} is of type {}", what, element.type));
  }
  std::vector<T> values(element.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), element.data.data(), element.data.size());
  return values;
}

// If the array has one of these names, reads it to its place among the results.
void read_array(std::span<const std::byte> matrix, std::span<const std::string_view> names,
                std::vector<MatlabArray>& results) {
  constexpr std::uint32_t complex_flag = 0x800, first_class = 6, last_class = 15;  // mxDOUBLE_CLASS to mxUINT64_CLASS
  ByteReader reader(matrix);
  const auto flags = values_of<std::uint32_t>(next_element(reader, "the flags of an array"), uint32_data, "flags");
  const auto shape = values_of<std::int32_t>(next_element(reader, "the shape of an array"), int32_data, "a shape");
  const auto name = values_of<char>(next_element(reader, "the name of an array"), int8_data, "a name");
  const std::string_view wanted(name.data(), name.size());
  const auto place = std::ranges::find(names, wanted);
  if (place == names.end()) return;
  if (flags.size() != 2 || (flags[0] & complex_flag) != 0 || (flags[0] & 0xFFU) < first_class ||
      (flags[0] & 0xFFU) > last_class) {
    throw WireError(fmt::format("{} is no array of real numbers", wanted));
  }
  const Element values = next_element(reader, "the values of an array");
  const std::size_t each = bytes_of_type(values.type);
  if (each == 0) throw WireError(fmt::format("the values of {} are of type {}", wanted, values.type));
  MatlabArray& array = results[static_cast<std::size_t>(place - names.begin())];
  array = {.shape = {}, .type = values.type, .values = {}};
  std::size_t left = values.data.size() / each;  // numbers that the dimensions so far leave to the others
  for (const std::int32_t side : shape) {
    const auto length = static_cast<std::size_t>(std::max(side, 0));
    array.shape.push_back(length);
    left = length > 0 && left % length == 0 ? left / length : 0;
  }
  if (left != 1 || values.data.size() % each != 0) {
    throw WireError(fmt::format("{} has {} bytes, which do not match its shape", wanted, values.data.size()));
  }
  array.values.assign(values.data.begin(), values.data.end());
}

// Reads the variables of these names, in their order. Reads only real arrays of numbers, in the byte order of this
// machine. FileError, which names the file, if a variable is missing, or if the file is damaged, truncated or of
// another format. Packed files have checksums, others do not.
std::vector<MatlabArray> read_matlab(const std::filesystem::path& path, std::initializer_list<std::string_view> names) {
  constexpr std::size_t header = 128, version = 124;
  const std::vector<std::byte> bytes = read_file(path);
  const auto is = [&](std::size_t at, std::string_view text) {
    return bytes.size() >= at + text.size() && std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
  };
  if (bytes.size() < header || !is(version, std::string_view("\0\1IM", 4))) {
    throw FileError(fmt::format("{}: is no file of MATLAB 5 in little-endian order", path.string()));
  }
  std::vector<MatlabArray> results(names.size());
  try {
    ByteReader reader(std::span<const std::byte>(bytes).subspan(header));
    while (reader.left() > 0) {
      Element element = next_element(reader, "a variable");
      std::vector<std::byte> content;
      if (element.type == packed_data) {
        content = inflate(path, element.data);
        ByteReader inner(content);
        element = next_element(inner, "a variable");
        inner.finish("a variable");
      }
      if (element.type != matrix_data) throw WireError(fmt::format("a variable is of type {}", element.type));
      read_array(element.data, {names.begin(), names.size()}, results);
    }
  } catch (const WireError& error) {
    throw FileError(fmt::format("{}: {}", path.string(), error.what()));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].values.empty()) {
      throw FileError(fmt::format("{}: holds no variable {}", path.string(), names.begin()[i]));
    }
  }
  return results;
}

}  // namespace

std::unique_ptr<Dataset> open_svhn(const DataOptions& options, Split split) {
  constexpr std::size_t side = 32, plane = side * side, each = 3 * plane;
  const auto path =
      std::filesystem::path(options.data_dir) / (split == Split::train ? "train_32x32.mat" : "test_32x32.mat");
  if (!path_exists(path)) {
    throw FileError(fmt::format("{}: no such file; `sotto data get svhn` downloads it", path.string()));
  }
  const std::vector<MatlabArray> arrays = read_matlab(path, {"X", "y"});
  const MatlabArray &images = arrays[0], &digits = arrays[1];
  std::vector<std::uint8_t> labels;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const double digit = digits.number(i);
    if (!(digit >= 1 && digit <= 10) || digit != std::floor(digit)) {
      throw FileError(fmt::format("{}: label {} is {}, which is not in 1..10", path.string(), i, digit));
    }
    labels.push_back(static_cast<std::uint8_t>(digit) % 10);
  }
  const std::vector<std::size_t> wanted{side, side, 3, labels.size()};
  if (images.type != uint8_data || images.shape != wanted) {
    throw FileError(fmt::format("{}: X is an array of {} in place of {} bytes, for as many images as labels",
                                path.string(), fmt::join(images.shape, "x"), fmt::join(wanted, "x")));
  }
  const std::size_t count = chosen_size(options, split, labels.size(), path.string());
  std::vector<std::uint8_t> pixels(count * each);
  for (std::size_t i = 0; i < pixels.size(); ++i) {  // rows vary fastest there, columns here
    const std::size_t row = i / side % side, column = i % side;
    pixels[i] = std::to_integer<std::uint8_t>(images.values[i / plane * plane + column * side + row]);
  }
  labels.resize(count);
  return std::make_unique<StoredDataset>(ImageShape{3, side, side}, 10, svhn_normalisation, count, std::move(pixels),
                                         std::move(labels));
}

}  // namespace sotto
