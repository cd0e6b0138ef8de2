#pragma once

#include "sotto/codec/stage.h"

namespace sotto {

// A cast: its values have the same form in messages as in sums, and no side information.
class Cast : public Quantise, public LinearForm {
 public:
  Packing packing() const final { return Packing::of_width(static_cast<unsigned>(8 * size_of(type()))); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) final;
  void add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                   std::span<float> out) const final;

 private:
  bool write(std::span<const float> values, float scale, std::span<std::byte> out) const final;
  // Converts values * scale. REQUIRES finite products.
  virtual void convert(std::span<const float> values, float scale, std::span<std::byte> out) const = 0;
};

}  // namespace sotto
