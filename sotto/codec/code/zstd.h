#pragma once

#include <memory>

#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

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

}  // namespace sotto
