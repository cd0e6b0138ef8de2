#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/scratch.h"
#include "sotto/core/random.h"
#include "sotto/kernels/norms.h"

namespace sotto {

// The magnitudes of a sample of values, as shares of their blocks' norms. Levels are fitted to them. A share counts
// with the square of its norm, so variance() is the variance of the values themselves.
class LevelSample {
 public:
  struct Moments {
    double weight = 0, shares = 0, squares = 0;  // sums of w, w r, w r^2
  };

  void reserve(std::size_t most);
  // Takes `count` values, one of each of equal stretches (spread_sample.h). REQUIRES finite norms.
  void take(std::span<const float> values, const kernels::Norms& norms, std::size_t count, const ElementStream& stream);

  std::span<const float> shares() const { return shares_; }  // ascending, from 0 to 1
  std::size_t below(float share) const;                      // the number of shares below this one
  std::size_t up_to(float share) const;                      // the number of shares that are not above this one
  Moments sum(std::size_t first, std::size_t last) const;    // over shares first .. last - 1

  // The sum of w (high - r) (r - low) over these shares: E |C(x)-x|^2 if all lie between these two levels, and are
  // rounded to them at random without bias.
  double variance(std::size_t first, std::size_t last, double low, double high) const;
  // The same of all shares, for ascending levels from 0 to 1.
  double variance(std::span<const float> levels) const;

 private:
  Scratch<std::uint64_t> sorted_;  // the bits of a share, then of its norm: as numbers they are in that order
  Scratch<float> room_;
  Scratch<Moments> sums_room_;
  std::span<const float> shares_;
  std::span<const Moments> sums_;  // entry i is over the first i shares
};

}  // namespace sotto
