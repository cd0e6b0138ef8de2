#pragma once

#include "sotto/codec/stage.h"

namespace sotto {

// The sign alone (signSGD, Bernstein et al., ICML 2018): one bit per value, which decodes to -1 or 1. The sign of a
// zero is drawn at random. The sign of a sum of messages is the majority; a tie is zero.
class Signs final : public Quantise {
 public:
  using Options = NoOptions;
  explicit Signs(const NoOptions&) {}

  Packing packing() const override { return Packing::of_width(1); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  Contract contract(std::size_t largest) const override;
};

}  // namespace sotto
