#include "sotto/codec/code/library_codes.h"

#include <blosc.h>
#include <fmt/format.h>
#include <lz4.h>
#include <zstd.h>

#include <new>

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

// The library's working memory, kept from message to message.
class Zstd::Contexts {
 public:
  Contexts() {
    if (compress == nullptr || decompress == nullptr) throw std::bad_alloc();
  }
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> compress{ZSTD_createCCtx()};
  std::unique_ptr<ZSTD_DCtx, Free> decompress{ZSTD_createDCtx()};
};

Zstd::Zstd(const ZstdOptions& options) : options_(options), contexts_(std::make_unique<Contexts>()) {}
Zstd::~Zstd() = default;

std::optional<std::size_t> Zstd::encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) {
  const std::size_t size = ZSTD_compressCCtx(contexts_->compress.get(), out.data(), out.size(), in.bytes.data(),
                                             in.bytes.size(), static_cast<int>(options_.level));
  if (ZSTD_isError(size) != 0) return std::nullopt;  // the only possible error: it does not fit
  return size;
}

void Zstd::decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) {
  const std::size_t frame = ZSTD_findFrameCompressedSize(coded.data(), coded.size());
  if (ZSTD_isError(frame) == 0 && frame != coded.size()) {
    throw WireError(fmt::format("zstd: {} bytes after the frame", coded.size() - frame));
  }
  const std::size_t size =
      ZSTD_decompressDCtx(contexts_->decompress.get(), out.bytes.data(), out.bytes.size(), coded.data(), coded.size());
  if (ZSTD_isError(size) != 0) throw WireError(fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  if (size != out.bytes.size()) {
    throw WireError(fmt::format("zstd: {} bytes where {} are announced", size, out.bytes.size()));
  }
}

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
