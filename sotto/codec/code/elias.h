#pragma once

#include "sotto/codec/code/symbol_code.h"
#include "sotto/core/options.h"

namespace sotto {

struct EliasOptions {
  bool gaps = true;
  void visit(OptionVisitor& v) {
    v.option("gaps", gaps, "count zeros, and code other symbols as they are; otherwise code every symbol, plus one");
  }
};

// Elias's gamma code (1975), for symbols that are mostly small, as QSGD codes its levels (Alistarh et al., NeurIPS
// 2017): the number of zeros, then the next non-zero symbol. The symbol of a level is 2 level, or -2 level - 1 if the
// level is negative, so the lowest bit is the sign.
class Elias final : public SymbolCode {
 public:
  using Options = EliasOptions;
  explicit Elias(const EliasOptions& options) : SymbolCode({.wants_counts = false}), options_(options) {}

 private:
  std::optional<std::span<const std::byte>> encode_chunk(std::span<const std::uint16_t> symbols, std::size_t alphabet,
                                                         std::span<std::byte> room) const override;
  void decode_chunk(std::span<const std::byte> in, std::size_t alphabet,
                    std::span<std::uint16_t> symbols) const override;
  EliasOptions options_;
};

}  // namespace sotto
