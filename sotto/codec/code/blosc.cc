#include "sotto/codec/code/blosc.h"

#include <blosc.h>
#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr int one_thread = 1;
constexpr int own_block_size = 0;
constexpr std::size_t flags_at = 2;  // in Blosc's header
constexpr int zstd_format = 4, lz4_format = 1;

// Bytes per symbol, if all symbols have the same number of whole bytes.
std::size_t symbol_bytes(std::span<const SymbolRun> runs) {
  const unsigned width = runs.empty() ? 8 : runs[0].width;
  const bool whole =
      width % 8 == 0 && std::ranges::all_of(runs, [&](const SymbolRun& run) { return run.width == width; });
  return whole ? width / 8 : 1;
}

}  // namespace

std::optional<std::size_t> Blosc::encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) {
  if (in.bytes.size() > BLOSC_MAX_BUFFERSIZE || out.size() <= BLOSC_MIN_HEADER_LENGTH) return std::nullopt;
  const int filter = options_.filter == "shuffle" ? BLOSC_SHUFFLE : BLOSC_BITSHUFFLE;
  const int size =
      blosc_compress_ctx(static_cast<int>(options_.level), filter, symbol_bytes(in.runs), in.bytes.size(),
                         in.bytes.data(), out.data(), out.size(), options_.codec.c_str(), own_block_size, one_thread);
  if (size < 0) throw ConfigError(fmt::format("blosc: this library is built without {}", options_.codec));
  return size > 0 ? std::optional(static_cast<std::size_t>(size)) : std::nullopt;
}

void Blosc::decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) {
  std::size_t size = 0;
  if (coded.size() < BLOSC_MIN_HEADER_LENGTH || blosc_cbuffer_validate(coded.data(), coded.size(), &size) < 0) {
    throw WireError("blosc: not a buffer of its format");
  }
  if (size != out.bytes.size())
    throw WireError(fmt::format("blosc: {} bytes where {} are announced", size, out.bytes.size()));
  const int format = std::to_integer<int>(coded[flags_at]) >> 5;
  if (format != (options_.codec == "lz4" ? lz4_format : zstd_format)) throw WireError("blosc: another codec than ours");
  const int read = blosc_decompress_ctx(coded.data(), out.bytes.data(), out.bytes.size(), one_thread);
  if (read < 0 || static_cast<std::size_t>(read) != size) throw WireError("blosc: a damaged buffer");
}

}  // namespace sotto
