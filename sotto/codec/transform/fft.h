#pragma once

#include "sotto/codec/transform/chunks.h"
#include "sotto/codec/transform/spectrum.h"

namespace sotto {

struct FftOptions : ChunkOptions {
  FftOptions() : ChunkOptions(4096) {}
};

// Fourier coefficients of chunks, orthonormal: atoms are pairs (re, im); a chunk of n has the frequencies 0 .. n/2.
// Coefficients that represent two conjugate ones are multiplied by sqrt(2), so that energies are the energies of the
// sent values.
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
