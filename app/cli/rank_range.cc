#include "app/cli/rank_range.h"

#include <fmt/format.h>

#include "sotto/core/error.h"
#include "sotto/core/options.h"

namespace sotto {

RankRange read_rank_range(const std::string& said, const std::string& text) {
  RankRange range;
  const auto colon = text.find(':');
  range.least = parse_int(said + ": the least number of ranks", text.substr(0, colon), {1, 65535});
  if (colon == std::string::npos) return range;
  range.most = parse_int(said + ": the greatest number of ranks", text.substr(colon + 1), {1, 65535});
  if (range.least > *range.most)
    throw ConfigError(fmt::format("{}: {} is more than {}", said, range.least, *range.most));
  return range;
}

}  // namespace sotto
