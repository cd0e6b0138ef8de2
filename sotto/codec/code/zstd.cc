#include "sotto/codec/code/zstd.h"

#include <fmt/format.h>
#include <zstd.h>

#include <new>

#include "sotto/core/error.h"

namespace sotto {

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

}  // namespace sotto
