#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/codec/transform/chunks.h"

namespace sotto {

// Fourier transforms of many real chunks of the same power of two, side by side. Two chunks share a complex transform,
// one as its real part and one as its imaginary part.
class Spectrum {
 public:
  explicit Spectrum(std::size_t largest);  // `largest`: the largest chunk size

  std::size_t batch() const { return 2 * lanes; }  // chunks at once
  // Takes chunks of `size` samples, which follow one another; the samples of missing chunks become zero. With `order`
  // sample j of a chunk is made number order[j].
  void read(std::span<const float> chunks, std::size_t size, std::span<const std::uint32_t> order = {});
  // out += scale * samples.
  void add(float scale, std::size_t size, std::span<float> out, std::span<const std::uint32_t> order = {});
  // Coefficient k of chunk c, for k <= size / 2. REQUIRES c < batch().
  float& re(std::size_t c, std::size_t k) { return coefficient_re_[k * batch() + c]; }
  float& im(std::size_t c, std::size_t k) { return coefficient_im_[k * batch() + c]; }
  void clear(std::size_t size);      // the coefficients to zero
  void transform(std::size_t size);  // samples -> coefficients, sum_j x_j exp(-2 pi i j k / size)
  void invert(std::size_t size);     // coefficients -> samples, times size

 private:
  static constexpr std::size_t lanes = 16;
  void use_tables(std::size_t size);

  std::size_t tabled_ = 0;
  std::vector<float> re_, im_, coefficient_re_, coefficient_im_, cosines_, sines_;
  std::vector<float> chunks_;
};

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
