#pragma once

#include "sotto/codec/transform/chunks.h"
#include "sotto/codec/transform/spectrum.h"

namespace sotto {

struct FftOptions : ChunkOptions {
  FftOptions() : ChunkOptions(4096) {}
};

// Fourier coefficients of chunks, orthonormal: atoms are pairs (re, im), of a chunk of n the frequencies 0 .. n/2.
// Those that stand for two conjugate ones are sqrt(2) times as large, so energies are those of what is sent.
class Fft final : public ChunkTransform {
 public:
  using Options = FftOptions;
  explicit Fft(const FftOptions& options);

  Atoms atoms(const Layout& layout, const Piece& piece) const override;
  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) override;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) override;

 private:
  Spectrum spectrum_;
};

}  // namespace sotto
