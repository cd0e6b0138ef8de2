#pragma once

#include "sotto/codec/stage.h"

namespace sotto {

// A cast whose values stand in messages as they do in sums: no side information.
class Cast : public Quantise, private LinearForm {
 public:
  unsigned width() const final { return static_cast<unsigned>(8 * size_of(type())); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) final;
  void add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                   std::span<float> out) const final;
  const LinearForm* linear() const final { return this; }

 private:
  bool write(std::span<const float> values, float scale, std::span<std::byte> out) const final;
  // Of values whose products with `scale` are finite.
  virtual void convert(std::span<const float> values, float scale, std::span<std::byte> out) const = 0;
};

}  // namespace sotto
