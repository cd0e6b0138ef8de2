#pragma once

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

}  // namespace sotto
