#include "app/data/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "app/data/unpack.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

std::uint32_t big_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | std::to_integer<std::uint32_t>(bytes[static_cast<std::size_t>(i)]);
  return value;
}

}  // namespace

Idx read_idx(const std::filesystem::path& path, std::size_t dimensions) {
  const auto fail = [&path](const std::string& what) { throw FileError(fmt::format("{}: {}", path.string(), what)); };

  const std::vector<std::byte> bytes = read_unpacked(path);
  const std::size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header) fail(fmt::format("truncated: {} bytes, too short for an IDX header", bytes.size()));
  const std::uint32_t magic = big_endian(bytes);
  const std::uint32_t wanted = 0x0800U | static_cast<std::uint32_t>(dimensions);
  if (magic != wanted) {
    fail(fmt::format("not an IDX file of bytes with {} dimensions: it begins with {:08x} instead of {:08x}", dimensions,
                     magic, wanted));
  }
  Idx idx;
  // Stops as soon as the product exceeds the file, before it can overflow.
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    idx.shape.push_back(big_endian(std::span(bytes).subspan(4 + 4 * i, 4)));
    elements = std::min<std::uint64_t>(elements * idx.shape.back(), std::uint64_t{1} << 31);
  }
  const std::span<const std::byte> body = std::span(bytes).subspan(header);
  if (body.size() != elements) {
    fail(fmt::format("{}: its header announces {} bytes of data, and there are {}",
                     body.size() < elements ? "truncated" : "surplus bytes", fmt::join(idx.shape, "x"), body.size()));
  }
  idx.values.resize(body.size());
  std::transform(body.begin(), body.end(), idx.values.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return idx;
}

void write_idx(const std::filesystem::path& path, const Idx& idx) {
  std::vector<std::byte> bytes{std::byte{0}, std::byte{0}, std::byte{8}, static_cast<std::byte>(idx.shape.size())};
  for (const std::uint32_t size : idx.shape) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::byte>(size >> shift));
  }
  const auto values = std::as_bytes(std::span(idx.values));
  bytes.insert(bytes.end(), values.begin(), values.end());
  write_file_atomic(path, bytes);
}

}  // namespace sotto
