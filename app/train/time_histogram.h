#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sotto {

// Counts times in bins whose ends are 1.1 % apart, so a median takes constant memory.
class TimeHistogram {
 public:
  void add(double seconds);
  // Accurate to 1.1 % for times from a microsecond to a day; 0 if there are none.
  double median() const;

 private:
  static constexpr std::size_t bins_an_octave = 64;
  static constexpr std::size_t octaves = 37;
  std::array<std::uint64_t, bins_an_octave * octaves> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace sotto
