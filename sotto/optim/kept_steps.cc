#include "sotto/optim/kept_steps.h"

#include <algorithm>
#include <bit>

namespace sotto {

void KeptSteps::apply(std::span<float> /*parameters*/, std::span<float> mean, std::size_t begin, double lr) {
  const auto is_there = [](float value) { return std::bit_cast<std::uint32_t>(value) != 0; };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(mean, is_there));
  Stretch stretch{.begin = begin, .size = mean.size(), .lr = lr};
  if (2 * count < mean.size() && mean.size() <= std::numeric_limits<std::uint32_t>::max()) {
    stretch.places.reserve(count + 1);
    stretch.values.reserve(count + 1);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      if (!is_there(mean[i]) && i > 0) continue;
      stretch.places.push_back(static_cast<std::uint32_t>(i));
      stretch.values.push_back(mean[i]);
    }
  } else {
    stretch.values.assign(mean.begin(), mean.end());
  }
  bytes_ += stretch.bytes();
  steps_.back().stretches.push_back(std::move(stretch));
}

bool KeptSteps::replay(Optimiser& optimiser, std::span<float> parameters, Clock::time_point until) {
  std::vector<float> mean;
  for (; !steps_.empty() && Clock::now() < until; steps_.pop_front()) {
    Step& step = steps_.front();
    optimiser.begin_step(step.number);
    for (Stretch& stretch : step.stretches) {
      bytes_ -= stretch.bytes();
      if (stretch.places.empty()) {
        mean = std::move(stretch.values);
      } else {
        mean.assign(stretch.size, 0.0F);
        for (std::size_t i = 0; i < stretch.places.size(); ++i) mean[stretch.places[i]] = stretch.values[i];
      }
      optimiser.apply(parameters.subspan(stretch.begin, stretch.size), mean, stretch.begin, stretch.lr);
    }
  }
  return steps_.empty();
}

}  // namespace sotto
