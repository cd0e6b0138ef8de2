#pragma once

#include "sotto/codec/stage.h"
#include "sotto/core/dtype.h"
#include "sotto/core/options.h"

namespace sotto {

// A cast: its values have the same form in messages as in sums, and no side information.
class Cast : public Quantise, public LinearForm {
 public:
  using Options = NoOptions;

  Packing packing() const final { return Packing::of_width(static_cast<unsigned>(8 * size_of(kind_.type))); }
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) final;
  void check(const Quantised& in, std::size_t values) const final;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const final;
  Contract contract(std::size_t /*largest*/) const final { return kind_.contract; }

 protected:
  struct Kind {
    DType type;
    // Converts values * scale. REQUIRES finite products.
    void (*convert)(std::span<const float> values, float scale, std::span<std::byte> out);
    void (*add)(std::span<const std::byte> in, float scale, std::span<float> out);
    bool (*all_finite)(std::span<const std::byte> in);
    Contract contract;
  };
  explicit Cast(const Kind& kind) : kind_(kind) {}

 private:
  DType type() const final { return kind_.type; }
  bool write(std::span<const float> values, float scale, std::span<std::byte> out) const final;
  void add(std::span<const std::byte> in, float scale, std::span<float> out) const final { kind_.add(in, scale, out); }

  Kind kind_;
};

// Floats, unchanged.
class F32 final : public Cast {
 public:
  explicit F32(const NoOptions& options);
};

// bfloat16: the upper half of a float, rounded to nearest even. It saturates at 3.39e38 instead of becoming infinite.
class BF16 final : public Cast {
 public:
  explicit BF16(const NoOptions& options);
};

}  // namespace sotto
