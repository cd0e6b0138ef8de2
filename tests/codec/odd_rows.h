#pragma once

#include <cmath>

#include "sotto/codec/stage.h"

namespace sotto::testing {

// Each pair (x, y) becomes an atom of energy |(x, y)| and row (x+y, x-y)/2. The last value of an odd piece is paired
// with 0.
class Butterfly final : public Transform {
 public:
  Atoms atoms(const Layout&, const Piece& piece) const override { return {(piece.range.size() + 1) / 2, 2}; }
  void forward(const Layout&, const Piece&, const Streams&, std::span<const float> values, std::span<float> energies,
               std::span<float> rows) override {
    for (std::size_t i = 0; i < energies.size(); ++i) {
      const float x = values[2 * i];
      const float y = 2 * i + 1 < values.size() ? values[2 * i + 1] : 0.0F;
      energies[i] = std::hypot(x, y);
      rows[2 * i] = (x + y) / 2;
      rows[2 * i + 1] = (x - y) / 2;
    }
  }
  void add_inverse(const Layout&, const Piece&, std::span<const std::uint32_t> selected, std::span<const float> rows,
                   float scale, std::span<float> out) override {
    for (std::size_t j = 0; j < selected.size(); ++j) {
      const std::size_t i = 2 * selected[j];
      out[i] += scale * (rows[2 * j] + rows[2 * j + 1]);
      if (i + 1 < out.size()) out[i + 1] += scale * (rows[2 * j] - rows[2 * j + 1]);
    }
  }
  Contract contract(const Layout&) const override { return {.grain = Contract::Grain::block, .block = 2}; }
};

// Sends every atom with probability 1/2, twice as large: unbiased, with variance |x|^2.
class Coin final : public Select {
 public:
  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const override {
    std::size_t sum = 0;
    for (std::size_t g = 0; g < atoms.size(); ++g) sum += each[g] = atoms[g];
    return sum;
  }
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales) override {
    std::size_t total = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const ElementStream stream = streams.stream(streams.selection, groups[g].segment);
      const std::size_t before = total;
      for (std::uint32_t i = 0; i < groups[g].energies.size(); ++i) {
        if (stream.uniform(i) < 0.5F) continue;
        scales[total] = 2;
        indices[total++] = groups[g].first + i;
      }
      counts[g] = total - before;
    }
    return total;
  }
  SelectTraits traits() const override { return {.scales = true}; }
  Contract contract(std::span<const std::size_t>) const override {
    return {.kind = Contract::Kind::unbiased, .omega = 1, .delta = 0};
  }
};

}  // namespace sotto::testing
