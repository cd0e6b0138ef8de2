#include "sotto/comm/tcp_places.h"

#include <cstdint>
#include <vector>

#include "sotto/comm/bounded.h"
#include "sotto/core/error.h"

namespace sotto {

void TcpPlaces::leave(int rank, const std::string& place) {
  section_->set(std::to_string(rank), std::vector<std::uint8_t>(place.begin(), place.end()));
}

std::optional<std::string> TcpPlaces::find(int rank, Clock::time_point until) const {
  const auto answer =
      bounded(until, {}, [section = section_, key = std::to_string(rank)]() -> std::optional<std::string> {
        if (!section->check({key})) return std::nullopt;
        const auto bytes = section->get(key);
        return std::string(bytes.begin(), bytes.end());
      });
  if (!answer) throw CommError("the ranks' meeting place does not say where it listens");
  if (*answer) return *answer;
  if (const auto why = meeting_->failure_of(rank, until)) throw CommError("it has ended: " + *why);
  return std::nullopt;
}

}  // namespace sotto
