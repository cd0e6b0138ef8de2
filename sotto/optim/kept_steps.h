#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sotto/core/timer.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

// Stands for an optimiser whose parameters are still on their way: keeps the steps, which replay() lets it take later.
class KeptSteps final : public Optimiser {
 public:
  void begin_step(std::uint64_t step) override { steps_.push_back({step, {}}); }
  // REQUIRES begin_step(). The parameters stay as they are.
  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override;
  void visit_state(StateVisitor& /*visitor*/) override {}

  std::size_t bytes() const { return bytes_; }
  // Lets `optimiser` take the steps in order, and forgets them; begins none after `until`. Returns whether none is
  // left. REQUIRES all of the parameters, as they were before the first of these steps.
  bool replay(Optimiser& optimiser, std::span<float> parameters, Clock::time_point until);

 private:
  // What one apply() got. If most of the mean is zero (+0, to the bit), only its first value and the values that are
  // not zero are kept, with their places.
  struct Stretch {
    std::size_t begin = 0, size = 0;
    double lr = 0;
    std::vector<std::uint32_t> places{};  // empty: all values are kept
    std::vector<float> values{};
    std::size_t bytes() const { return places.size() * sizeof(std::uint32_t) + values.size() * sizeof(float); }
  };
  struct Step {
    std::uint64_t number = 0;
    std::vector<Stretch> stretches{};
  };

  std::deque<Step> steps_;
  std::size_t bytes_ = 0;
};

}  // namespace sotto
