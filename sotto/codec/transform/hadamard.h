#pragma once

#include <vector>

#include "sotto/codec/transform/chunks.h"

namespace sotto {

struct HadamardOptions : ChunkOptions {
  HadamardOptions() : ChunkOptions(1024) {}
};

// Walsh-Hadamard coefficients of chunks, after random signs. The transform is orthonormal and spreads large values over
// the whole chunk, which suits quantisers (Suresh et al., ICML 2017). The sign depends only on the element's number in
// its segment and never changes, so messages need not contain it.
class Hadamard final : public ChunkTransform {
 public:
  using Options = HadamardOptions;
  explicit Hadamard(const HadamardOptions& options);

  void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
               std::span<float> energies, std::span<float> rows) override;
  void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                   std::span<const float> rows, float scale, std::span<float> out) override;

 private:
  std::vector<float> chunks_, lanes_;
};

}  // namespace sotto
