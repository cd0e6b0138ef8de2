#pragma once

#include <memory>
#include <vector>

#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct Lz4Options {
  std::int64_t acceleration = 1;
  void visit(OptionVisitor& v) {
    v.option("acceleration", acceleration, "the larger, the faster, and the larger the result", Bounds{1, 65537});
  }
};

// LZ4's block format over the whole body: removes repeats, at several GB/s.
class Lz4 final : public Code {
 public:
  using Options = Lz4Options;
  explicit Lz4(const Lz4Options& options);

  std::optional<std::size_t> encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) override;
  void decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) override;

 private:
  Lz4Options options_;
  std::vector<std::uint64_t> state_;  // the library's working memory
};

struct ZstdOptions {
  std::int64_t level = 1;
  void visit(OptionVisitor& v) { v.option("level", level, "effort: 1 is fast, 19 is small", Bounds{1, 19}); }
};

// Zstandard (RFC 8878) over the whole body: removes repeats and exploits skewed bytes, which suits packed symbols that
// are mostly zero.
class Zstd final : public Code {
 public:
  using Options = ZstdOptions;
  explicit Zstd(const ZstdOptions& options);
  ~Zstd() override;

  std::optional<std::size_t> encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) override;
  void decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) override;

 private:
  class Contexts;
  ZstdOptions options_;
  std::unique_ptr<Contexts> contexts_;
};

struct BloscOptions {
  std::string filter = "bitshuffle";
  std::string codec = "lz4";
  std::int64_t level = 5;
  void visit(OptionVisitor& v) {
    v.option("filter", filter, "what is grouped: equal bits, or equal bytes, of neighbouring symbols",
             {"bitshuffle", "shuffle"});
    v.option("codec", codec, "what then finds repeats", {"lz4", "zstd"});
    v.option("level", level, "effort: 1 is fast, 9 is small", Bounds{1, 9});
  }
};

// Blosc (Alted, 2010) over the symbols: bits or bytes of the same weight are grouped before the search for repeats.
// C-Blosc 1 allocates two or three of its blocks (about 256 KB) for each buffer that it packs or unpacks, and a
// Zstandard context; neither of its interfaces accepts memory from outside. The context interface, which is used here,
// at least keeps nothing between calls and takes no lock. This is therefore the only stage that allocates in every
// step.
class Blosc final : public Code {
 public:
  using Options = BloscOptions;
  explicit Blosc(const BloscOptions& options) : options_(options) {}

  bool of_symbols() const override { return true; }
  std::optional<std::size_t> encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) override;
  void decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) override;

 private:
  BloscOptions options_;
};

}  // namespace sotto
