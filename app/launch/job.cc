#include "app/launch/job.h"

#include <algorithm>

namespace sotto {

std::optional<std::size_t> decisive(std::span<const Ending> endings) {
  for (const Ending kind : {Ending::failed, Ending::stopped, Ending::echo}) {
    const auto found = std::ranges::find(endings, kind);
    if (found != endings.end()) return static_cast<std::size_t>(found - endings.begin());
  }
  return std::nullopt;
}

}  // namespace sotto
