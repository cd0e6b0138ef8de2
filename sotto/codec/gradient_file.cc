#include "sotto/codec/gradient_file.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/kernels/checksum.h"

namespace sotto {
namespace {

constexpr std::string_view magic = "SOTTOGRD";
constexpr std::uint32_t version = 1;
constexpr std::size_t guarded_from = magic.size() + 2 * sizeof(std::uint32_t);
constexpr int level = 3;
constexpr std::uint64_t most_elements = std::uint64_t{1} << 60;  // their byte count fits in 64 bits

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

Segment read_segment(ByteReader& reader) {
  Segment segment;
  const auto name = reader.take(reader.get<std::uint32_t>("length of a name"), "name of a segment");
  segment.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  segment.offset = reader.get<std::uint64_t>("offset of a segment");
  const auto dimensions = reader.get<std::uint32_t>("number of dimensions");
  std::uint64_t numel = 1;
  for (std::uint32_t d = 0; d < dimensions; ++d) {
    const auto size = reader.get<std::uint64_t>("dimension");
    if (size > most_elements || (size > 0 && numel > most_elements / size)) {
      throw WireError(fmt::format("segment {} is too large", segment.name));
    }
    numel *= size;
    segment.shape.push_back(static_cast<std::int64_t>(size));
  }
  return segment;
}

// Checks that the segments ascend, lie within the vector and do not overlap.
void check_segments(std::span<const Segment> segments, std::uint64_t elements) {
  std::uint64_t end = 0;
  for (const Segment& segment : segments) {
    if (segment.offset < end || segment.offset > elements || segment.numel() > elements - segment.offset) {
      throw WireError(fmt::format("segment {} overlaps another one or reaches beyond the end", segment.name));
    }
    end = segment.offset + segment.numel();
  }
}

GradientFile parse(std::span<const std::byte> file) {
  if (!is_gradient_file(file)) throw WireError("it is no captured gradient");
  ByteReader reader(file);
  reader.take(magic.size(), "magic");
  if (const auto found = reader.get<std::uint32_t>("version"); found != version) {
    throw WireError(fmt::format("version {} of the format is not known; this program reads {}", found, version));
  }
  if (reader.get<std::uint32_t>("checksum") != kernels::crc32(0, file.subspan(guarded_from))) {
    throw WireError("its checksum is wrong: it was cut off or changed");
  }
  GradientFile gradient;
  gradient.step = reader.get<std::uint64_t>("step");
  const auto elements = reader.get<std::uint64_t>("number of elements");
  if (elements > most_elements) throw WireError(fmt::format("{} elements", elements));
  std::vector<Segment> segments;
  const auto count = reader.get<std::uint32_t>("number of segments");
  for (std::uint32_t i = 0; i < count; ++i) segments.push_back(read_segment(reader));
  check_segments(segments, elements);
  gradient.layout = Layout(std::move(segments), elements);
  const auto frame = reader.rest();
  // A Zstandard frame cannot compress better than this, so a larger number of elements must be wrong.
  if (elements * sizeof(float) / 40'000 > frame.size()) {
    throw WireError(fmt::format("{} elements in {} bytes", elements, frame.size()));
  }
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != elements * sizeof(float)) {
    throw WireError(fmt::format("its values are not {} floats", elements));
  }
  gradient.values.resize(elements);
  const std::size_t size =
      ZSTD_decompress(gradient.values.data(), elements * sizeof(float), frame.data(), frame.size());
  if (ZSTD_isError(size) != 0) throw WireError(fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  return gradient;
}

}  // namespace

bool is_gradient_file(std::span<const std::byte> file) {
  return file.size() >= guarded_from && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

void write_gradient_file(const std::filesystem::path& path, std::uint64_t step, const Layout& layout,
                         std::span<const float> values) {
  if (values.size() != layout.size()) throw std::logic_error("write_gradient_file: vector and layout differ");
  std::vector<std::byte> out(guarded_from);
  append(out, step);
  append(out, std::uint64_t{values.size()});
  append(out, static_cast<std::uint32_t>(layout.segments().size()));
  for (const Segment& segment : layout.segments()) {
    append(out, static_cast<std::uint32_t>(segment.name.size()));
    const auto name = std::as_bytes(std::span(segment.name));
    out.insert(out.end(), name.begin(), name.end());
    append(out, std::uint64_t{segment.offset});
    append(out, static_cast<std::uint32_t>(segment.shape.size()));
    for (const std::int64_t size : segment.shape) append(out, static_cast<std::uint64_t>(size));
  }
  const std::size_t head = out.size();
  out.resize(head + ZSTD_compressBound(values.size_bytes()));
  const std::size_t frame =
      ZSTD_compress(out.data() + head, out.size() - head, values.data(), values.size_bytes(), level);
  if (ZSTD_isError(frame) != 0) throw FileError(fmt::format("{}: zstd: {}", path.string(), ZSTD_getErrorName(frame)));
  out.resize(head + frame);

  ByteWriter writer(out);
  writer.put_bytes(std::as_bytes(std::span(magic)));
  writer.put(version);
  writer.put(kernels::crc32(0, std::span(out).subspan(guarded_from)));
  write_file_atomic(path, out);
}

GradientFile read_gradient_file(const std::filesystem::path& path) {
  try {
    return parse(read_file(path));
  } catch (const WireError& error) {
    throw FileError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

void require_finite(const std::filesystem::path& path, const GradientFile& file) {
  const auto bad = std::ranges::find_if(file.values, [](float value) { return !std::isfinite(value); });
  if (bad == file.values.end()) return;
  const auto at = static_cast<std::size_t>(bad - file.values.begin());
  throw FileError(fmt::format("{}: {} holds {}", path.string(), file.layout.name_at(at), *bad));
}

std::vector<float> without_padding(const Layout& layout, std::span<const float> values) {
  std::vector<float> all;
  all.reserve(layout.numel());
  for (const Segment& segment : layout.segments()) {
    const auto its = values.subspan(segment.offset, segment.numel());
    all.insert(all.end(), its.begin(), its.end());
  }
  return all;
}

}  // namespace sotto
