#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sotto {

// "MIN" or "MIN:MAX" ranks.
struct RankRange {
  std::int64_t least = 1;
  std::optional<std::int64_t> most;
};
// ConfigError, which begins with `said`, if it is neither, or MIN is above MAX.
RankRange read_rank_range(const std::string& said, const std::string& text);

}  // namespace sotto
