#include "sotto/cli/float_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";

// What stands after `'key':` in the header, a Python dictionary as numpy writes it.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) throw WireError(fmt::format("its header has no '{}'", key));
  std::string_view value = header.substr(at + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

// The product of "(3, 4)"; nothing when it is no tuple of whole numbers, or overflows.
std::optional<std::size_t> product(std::string_view shape) {
  if (!shape.starts_with('(')) return std::nullopt;
  std::size_t total = 1;
  shape.remove_prefix(1);
  while (!shape.starts_with(')')) {
    std::size_t dimension = 0;
    const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), dimension);
    if (error != std::errc()) return std::nullopt;
    if (dimension != 0 && total > std::numeric_limits<std::size_t>::max() / dimension) return std::nullopt;
    total *= dimension;
    shape.remove_prefix(static_cast<std::size_t>(end - shape.data()));
    shape.remove_prefix(std::min(shape.find_first_not_of(", "), shape.size()));
  }
  return total;
}

// The bytes of the values of a .npy file.
std::span<const std::byte> npy_values(std::span<const std::byte> file) {
  ByteReader reader(file);
  reader.take(npy_magic.size(), "magic");
  const auto major = reader.get<std::uint8_t>("version");
  reader.get<std::uint8_t>("version");
  if (major < 1 || major > 3) throw WireError(fmt::format("version {} of the format is not known", major));
  const std::size_t length = major == 1 ? reader.get<std::uint16_t>("length") : reader.get<std::uint32_t>("length");
  const auto bytes = reader.take(length, "header");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!value_of(header, "descr").starts_with("'<f4'")) throw WireError("its values are not little-endian float32");
  if (!value_of(header, "fortran_order").starts_with("False")) throw WireError("it is in Fortran order");
  const auto count = product(value_of(header, "shape"));
  if (!count) throw WireError("its shape cannot be read");
  if (*count != reader.left() / sizeof(float) || reader.left() % sizeof(float) != 0) {
    throw WireError(fmt::format("its shape has {} values, but {} bytes follow", *count, reader.left()));
  }
  return reader.rest();
}

}  // namespace

std::vector<float> read_floats(const std::filesystem::path& path) {
  const std::vector<std::byte> file = read_file(path);
  std::span<const std::byte> bytes = file;
  const bool npy = file.size() >= npy_magic.size() && std::memcmp(file.data(), npy_magic.data(), npy_magic.size()) == 0;
  try {
    if (npy) bytes = npy_values(file);
  } catch (const WireError& error) {
    throw FileError(fmt::format("{}: {}", path.string(), error.what()));
  }
  if (bytes.size() % sizeof(float) != 0) {
    throw FileError(fmt::format("{}: {} bytes are not whole float32 values", path.string(), bytes.size()));
  }
  if (bytes.empty()) throw FileError(fmt::format("{}: holds no values", path.string()));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace sotto
