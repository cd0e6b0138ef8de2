#include "sotto/codec/quantise/cluster_training.h"

#include <algorithm>
#include <cstddef>

namespace sotto {
namespace {

constexpr int most_rounds = 20;

// Returns the first number at which the running sum of squared distances exceeds `target`. If there is none, because of
// rounding, returns the last number with a distance above 0.
std::size_t draw_far(std::span<const double> distances, double target) {
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < distances.size(); ++i) {
    if (distances[i] == 0) continue;
    sum += distances[i];
    last = i;
    if (sum > target) break;
  }
  return last;
}

// Returns the number of centres: fewer than there is room for if there are too few distinct numbers.
std::size_t draw_centres(std::span<const float> numbers, const ElementStream& stream, std::uint32_t first,
                         std::span<double> distances, std::span<float> centres) {
  const auto place = (std::uint64_t{stream.at(first)} * numbers.size()) >> 32;
  centres[0] = numbers[place];
  for (std::size_t count = 1;; ++count) {
    double sum = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double d = static_cast<double>(numbers[i]) - static_cast<double>(centres[count - 1]);
      distances[i] = count == 1 ? d * d : std::min(distances[i], d * d);
      sum += distances[i];
    }
    if (count == centres.size() || sum == 0) return count;
    const double share = static_cast<double>(stream.at(first + static_cast<std::uint32_t>(count))) * 0x1p-32;
    centres[count] = numbers[draw_far(distances, share * sum)];
  }
}

// Moves each centre to the mean of the numbers nearest to it. Returns false if none has moved.
bool move_to_means(std::span<const float> numbers, std::span<float> centres) {
  bool moved = false;
  std::size_t i = 0;
  for (std::size_t k = 0; k < centres.size(); ++k) {
    const bool last = k + 1 == centres.size();
    const double boundary = last ? 0 : (static_cast<double>(centres[k]) + static_cast<double>(centres[k + 1])) / 2;
    double sum = 0;
    const std::size_t begin = i;
    for (; i < numbers.size() && (last || static_cast<double>(numbers[i]) <= boundary); ++i) {
      sum += static_cast<double>(numbers[i]);
    }
    if (i == begin) continue;
    const auto mean = static_cast<float>(sum / static_cast<double>(i - begin));
    moved = moved || mean != centres[k];
    centres[k] = mean;
  }
  return moved;
}

}  // namespace

void find_centres(std::span<const float> ascending, const ElementStream& stream, std::uint32_t first,
                  std::span<double> distances, std::span<float> centres) {
  if (ascending.empty()) {
    std::ranges::fill(centres, 0.0F);
    return;
  }
  const auto found = centres.first(draw_centres(ascending, stream, first, distances.first(ascending.size()), centres));
  std::ranges::sort(found);
  for (int round = 0; round < most_rounds && move_to_means(ascending, found); ++round) {
  }
  std::ranges::fill(centres.subspan(found.size()), found.back());
}

}  // namespace sotto
