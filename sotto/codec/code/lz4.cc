#include "sotto/codec/code/lz4.h"

#include <fmt/format.h>
#include <lz4.h>

#include <algorithm>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::size_t most_bytes = LZ4_MAX_INPUT_SIZE;

const char* chars(std::span<const std::byte> bytes) { return reinterpret_cast<const char*>(bytes.data()); }
char* chars(std::span<std::byte> bytes) { return reinterpret_cast<char*>(bytes.data()); }

}  // namespace

Lz4::Lz4(const Lz4Options& options)
    : options_(options), state_(static_cast<std::size_t>(LZ4_sizeofState()) / sizeof(std::uint64_t) + 1) {}

std::optional<std::size_t> Lz4::encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) {
  if (in.bytes.size() > most_bytes) return std::nullopt;
  const int size =
      LZ4_compress_fast_extState(state_.data(), chars(in.bytes), chars(out), static_cast<int>(in.bytes.size()),
                                 static_cast<int>(out.size()), static_cast<int>(options_.acceleration));
  return size > 0 ? std::optional(static_cast<std::size_t>(size)) : std::nullopt;
}

void Lz4::decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) {
  if (std::max(coded.size(), out.bytes.size()) > most_bytes) throw WireError("lz4: a body that is too large");
  const int size = LZ4_decompress_safe(chars(coded), chars(out.bytes), static_cast<int>(coded.size()),
                                       static_cast<int>(out.bytes.size()));
  if (size < 0) throw WireError("lz4: not a block of its format, or one of more bytes than are announced");
  if (static_cast<std::size_t>(size) != out.bytes.size()) {
    throw WireError(fmt::format("lz4: {} bytes where {} are announced", size, out.bytes.size()));
  }
}

}  // namespace sotto
