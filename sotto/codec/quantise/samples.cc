#include "sotto/codec/quantise/samples.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "sotto/codec/quantise/samples.h"
#include "sotto/kernels/bins.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/select.h"

namespace sotto {

void KeySample::count(ThreadPool& pool, std::span<const float> values) {
  const auto before = before_.room(chunks(values.size()) + 1);
  pool.run_stretches(values.size(), std::max(pool.grain() / chunk, std::size_t{1}) * chunk,
                     [&](std::size_t begin, std::size_t end) {
                       for (; begin < end; begin += chunk) {
                         const auto some = values.subspan(begin, std::min(chunk, end - begin));
                         before[begin / chunk + 1] =
                             static_cast<std::uint32_t>(std::ranges::count_if(some, [](float v) { return v != 0; }));
                       }
                     });
  before[0] = 0;
  std::partial_sum(before.begin(), before.end(), before.begin());
}

std::span<const std::uint32_t> KeySample::take(ThreadPool& pool, std::span<const float> values) {
  count(pool, values);
  const auto before = before_.room(chunks(values.size()) + 1);
  const std::size_t stride = std::max<std::size_t>((before.back() + most - 1) / most, 1);
  const auto keys = keys_.room(most).first(before.back() / stride);
  // Sample j is the non-zero value number place(j).
  const auto place = [stride](std::size_t j) {
    return j * stride + ((std::uint64_t{ElementStream::mix(static_cast<std::uint32_t>(j))} * stride) >> 32);
  };
  const std::size_t tasks = std::max(pool.grain() / chunk, std::size_t{1});
  pool.run_stretches(before.size() - 1, tasks, [&](std::size_t first, std::size_t last) {
    std::array<std::uint32_t, chunk> others;  // positions of a chunk's non-zero values
    for (std::size_t c = first; c < last; ++c) {
      const auto some = values.subspan(c * chunk, std::min(chunk, values.size() - c * chunk));
      const std::size_t count = before[c + 1] - before[c];
      const bool listed = count < some.size();
      if (listed && count > 0) kernels::collect_magnitudes(some, 1, 0, others.data());
      for (std::size_t j = before[c] / stride; j < keys.size() && j * stride < before[c + 1]; ++j) {
        const std::size_t number = place(j) - before[c];  // huge if it lies in the previous chunk
        if (number < count) keys[j] = kernels::element::bin_key(some[listed ? others[number] : number]);
      }
    }
  });
  kernels::sort_keys(keys, sorting_.room(most).first(keys.size()));
  return keys;
}

void LevelSample::reserve(std::size_t most) {
  sorted_.room(most);
  room_.room(most);
  sums_room_.room(most + 1);
}

void LevelSample::take(std::span<const float> values, const kernels::Norms& norms, std::size_t count,
                       const ElementStream& stream) {
  const auto sorted = sorted_.room(count);
  std::size_t taken = 0;
  visit_sample(values.size(), count, stream, [&](std::size_t i) {
    const auto norm = kernels::load<float>(norms.floats.data(), i / norms.block);
    const float share = std::min(std::abs(kernels::element::Grid(norm, 1).at(values[i])), 1.0F);
    sorted[taken++] = std::uint64_t{std::bit_cast<std::uint32_t>(share)} << 32 | std::bit_cast<std::uint32_t>(norm);
  });
  std::ranges::sort(sorted);
  const auto shares = room_.room(count);
  const auto sums = sums_room_.room(count + 1);
  sums[0] = {};
  for (std::size_t i = 0; i < count; ++i) {
    shares[i] = std::bit_cast<float>(static_cast<std::uint32_t>(sorted[i] >> 32));
    const double share = shares[i];
    const double norm = std::bit_cast<float>(static_cast<std::uint32_t>(sorted[i]));
    const double weight = norm * norm;
    sums[i + 1] = {sums[i].weight + weight, sums[i].shares + weight * share, sums[i].squares + weight * share * share};
  }
  shares_ = shares;
  sums_ = sums;
}

std::size_t LevelSample::below(float share) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(shares_, share) - shares_.begin());
}

std::size_t LevelSample::up_to(float share) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(shares_, share) - shares_.begin());
}

LevelSample::Moments LevelSample::sum(std::size_t first, std::size_t last) const {
  const Moments &from = sums_[first], &to = sums_[last];
  return {to.weight - from.weight, to.shares - from.shares, to.squares - from.squares};
}

double LevelSample::variance(std::size_t first, std::size_t last, double low, double high) const {
  const Moments some = sum(first, last);
  return std::max((low + high) * some.shares - low * high * some.weight - some.squares, 0.0);
}

double LevelSample::variance(std::span<const float> levels) const {
  double all = 0;
  for (std::size_t j = 1; j < levels.size(); ++j) {
    all += variance(up_to(levels[j - 1]), up_to(levels[j]), levels[j - 1], levels[j]);
  }
  return all;
}

}  // namespace sotto
