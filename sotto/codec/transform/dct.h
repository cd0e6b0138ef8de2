#pragma once

#include <cstdint>
#include <vector>

#include "sotto/codec/transform/chunks.h"
#include "sotto/codec/transform/fft.h"
#include "sotto/kernels/fourier.h"

namespace sotto {

struct DctOptions : ChunkOptions {
  DctOptions() : ChunkOptions(64) {}
};

// The discrete cosine transform (type II, orthonormal) of chunks: a few coefficients then hold most of what neighbours
// have in common (Ahmed, Natarajan, Rao, 1974).
class Dct final : public ChunkTransform {
 public:
  using Options = DctOptions;
  explicit Dct(const DctOptions& options);

  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) override;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) override;

 private:
  void use_tables(std::size_t size);
  template <class Run>
  void for_frequencies(std::size_t size, Run run);
  // The lanes of coefficients 0 .. size of a batch's first or second half; number `size` is zero, or ignored.
  float* half_of_batch(std::size_t half, std::size_t size) {
    return &coefficients_[half * (size + 1) * kernels::fourier_lanes];
  }

  Spectrum spectrum_;
  std::size_t tabled_ = 0;
  std::vector<float> cosines_, sines_;  // of pi k / 2n
  std::vector<std::uint32_t> order_;    // where each sample is put
  std::vector<float> coefficients_;     // of one batch
};

}  // namespace sotto
