#include "sotto/codec/quantise/key_sample.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "sotto/core/random.h"
#include "sotto/kernels/bins.h"
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

}  // namespace sotto
