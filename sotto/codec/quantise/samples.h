#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/codec/scratch.h"
#include "sotto/core/random.h"
#include "sotto/core/thread_pool.h"
#include "sotto/kernels/run.h"

namespace sotto {

// Cuts 0 .. size - 1 into `count` equal stretches, draws one number from each, and calls visit(number), in ascending
// order. The draws use the random numbers 0 .. count - 1 of the stream. REQUIRES count <= size.
template <class Visit>
void visit_sample(std::size_t size, std::size_t count, const ElementStream& stream, Visit visit) {
  for (std::size_t j = 0; j < count; ++j) {
    const std::size_t begin = j * size / count;
    const std::size_t stretch = (j + 1) * size / count - begin;
    visit(begin + ((stream.at(static_cast<std::uint32_t>(j)) * std::uint64_t{stretch}) >> 32));
  }
}

// Keys (kernels/bins.h) of a sample of the non-zero values, for finding quantiles. There may be far more zeros than
// other values, so a sample of positions could miss the others.
class KeySample {
 public:
  static constexpr std::size_t most = std::size_t{1} << 15;
  KeySample() {
    keys_.room(most);
    sorting_.room(most);
  }

  // Returns ascending keys: of all non-zero values or, if there are more than `most`, of one in every s of them, with
  // the smallest s that leaves at most `most`.
  std::span<const std::uint32_t> take(ThreadPool& pool, std::span<const float> values);
  void reserve(std::size_t values) { before_.room(chunks(values) + 1); }  // for take()

 private:
  static constexpr std::size_t chunk = 4096;  // values per count of non-zero values
  static std::size_t chunks(std::size_t values) { return (values + chunk - 1) / chunk; }
  void count(ThreadPool& pool, std::span<const float> values);

  Scratch<std::uint32_t> keys_, sorting_;
  Scratch<std::uint32_t> before_;  // how many non-zero values come before each chunk; then their total
};

// The magnitudes of a sample of values, as shares of their blocks' norms. Levels are fitted to them. A share counts
// with the square of its norm, so variance() is the variance of the values themselves.
class LevelSample {
 public:
  struct Moments {
    double weight = 0, shares = 0, squares = 0;  // sums of w, w r, w r^2
  };

  void reserve(std::size_t most);
  // Takes `count` values, one from each of as many equal stretches (visit_sample). REQUIRES finite norms.
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
  Scratch<std::uint64_t> sorted_;  // the bits of a share above the bits of its norm, so that the order is by share
  Scratch<float> room_;
  Scratch<Moments> sums_room_;
  std::span<const float> shares_;
  std::span<const Moments> sums_;  // entry i is over the first i shares
};

}  // namespace sotto
