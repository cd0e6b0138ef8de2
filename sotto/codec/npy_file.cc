#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "sotto/codec/gradient_file.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/core/floats.h"
#include "sotto/core/open_file.h"
#include "sotto/kernels/cast.h"

namespace sotto {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";

// The text after `'key':` in the header, a Python dictionary as numpy writes it.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) throw WireError(fmt::format("its header has no '{}'", key));
  std::string_view value = header.substr(at + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

// The numbers of "(3, 4)".
std::vector<std::int64_t> shape_of(std::string_view text) {
  if (!text.starts_with('(')) throw WireError("its shape cannot be read");
  std::vector<std::int64_t> shape;
  text.remove_prefix(1);
  while (!text.starts_with(')')) {
    std::int64_t& dimension = shape.emplace_back();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dimension);
    if (error != std::errc() || dimension < 0) throw WireError("its shape cannot be read");
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
  }
  return shape;
}

// The number of values of such an array, at most the largest number that fits into a file.
std::size_t count_of(std::span<const std::int64_t> shape) {
  std::size_t total = 1;
  for (const std::int64_t size : shape) {
    const auto dimension = static_cast<std::size_t>(size);
    if (dimension == 0) return 0;
    total = total > std::numeric_limits<std::size_t>::max() / 8 / dimension
                ? std::numeric_limits<std::size_t>::max() / 8
                : total * dimension;
  }
  return total;
}

std::vector<float> values_of(std::span<const std::byte> bytes, std::size_t size) {
  std::vector<float> values(bytes.size() / size);
  if (size == sizeof(float)) std::memcpy(values.data(), bytes.data(), bytes.size());
  if (size == 2) kernels::add_f16(bytes, 1, 1, values);
  if (size == sizeof(double)) {
    ByteReader reader(bytes);
    for (float& value : values) {
      const auto wide = reader.get<double>("value");
      if (const auto beyond = beyond_float({&wide, 1})) {
        throw WireError(fmt::format("holds {}, which no float32 can hold; scale the values", *beyond));
      }
      value = static_cast<float>(wide);
    }
  }
  return values;
}

}  // namespace

bool is_npy(std::span<const std::byte> file) {
  return file.size() >= npy_magic.size() && std::memcmp(file.data(), npy_magic.data(), npy_magic.size()) == 0;
}

bool is_npz(std::span<const std::byte> file) {
  constexpr std::string_view zip("PK\x03\x04", 4);
  constexpr std::size_t length_at = 26, name_at = 30;  // of the first entry's name
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(zip) || text.size() < name_at) return false;
  const std::size_t length = ByteReader(file.subspan(length_at)).get<std::uint16_t>("length");
  return text.substr(name_at, length).ends_with(".npy");
}

GradientFile read_npy(std::span<const std::byte> file) {
  ByteReader reader(file);
  reader.take(npy_magic.size(), "magic");
  const auto major = reader.get<std::uint8_t>("version");
  reader.get<std::uint8_t>("version");
  if (major < 1 || major > 3) throw WireError(fmt::format("version {} of the format is not known", major));
  const std::size_t length = major == 1 ? reader.get<std::uint16_t>("length") : reader.get<std::uint32_t>("length");
  const auto bytes = reader.take(length, "header");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string_view type = value_of(header, "descr").substr(0, 5);
  const std::size_t size = type == "'<f4'" ? 4 : type == "'<f2'" ? 2 : type == "'<f8'" ? 8 : 0;
  if (size == 0)
    throw WireError("its values are not little-endian float16, float32 or float64; save array.astype(numpy.float32)");
  if (!value_of(header, "fortran_order").starts_with("False"))
    throw WireError("it is in Fortran order; save numpy.ascontiguousarray(array)");
  std::vector<std::int64_t> shape = shape_of(value_of(header, "shape"));
  const std::size_t count = count_of(shape);
  if (count != reader.left() / size || reader.left() % size != 0) {
    throw WireError(fmt::format("its shape has {} values, but {} bytes follow", count, reader.left()));
  }
  auto values = values_of(reader.rest(), size);
  if (shape.empty()) shape.push_back(1);
  return {Layout({{"values", 0, std::move(shape)}}, count), std::move(values)};
}

void write_npy(const std::filesystem::path& path, const Layout& layout, std::span<const float> values) {
  constexpr std::string_view version("\x01\x00", 2);
  constexpr std::size_t grain = 64;  // the values begin at a multiple of it, as numpy has it
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", layout.numel());
  const std::size_t before = npy_magic.size() + version.size() + sizeof(std::uint16_t);
  header.resize((before + header.size() + grain) / grain * grain - before - 1, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(npy_magic)));
  file.write(std::as_bytes(std::span(version)));
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const Segment& segment : layout.segments()) {
    file.write(std::as_bytes(values.subspan(segment.offset, segment.numel())));
  }
  file.commit();
}

}  // namespace sotto
