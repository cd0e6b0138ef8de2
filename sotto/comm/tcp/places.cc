#include "sotto/comm/tcp/places.h"

#include <fmt/format.h>

#include <sstream>

#include "sotto/comm/group/bounded.h"
#include "sotto/comm/visible_text.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::size_t most_bytes = 64 << 10;  // a rank leaves a line of some 100 bytes for each connection to a peer

// Whoever reaches the store may have written there.
std::string place_in(const std::string& value) {
  if (value.size() > most_bytes) {
    throw CommError(
        fmt::format("the ranks' meeting place has {} bytes where the address of a rank is due; something "
                    "that is no rank writes there",
                    value.size()));
  }
  std::istringstream lines(value);
  std::string place;
  for (std::string line; std::getline(lines, line);) place += (place.empty() ? "" : "\n") + visible(line);
  return place;
}

}  // namespace

void TcpPlaces::leave(int rank, const std::string& place) { section_->set(std::to_string(rank), place); }

std::optional<std::string> TcpPlaces::find(int rank, Clock::time_point until) const {
  const auto answer =
      bounded(until, {}, [section = section_, key = std::to_string(rank)]() -> std::optional<std::string> {
        if (!section->check(key)) return std::nullopt;
        return place_in(section->get(key));
      });
  if (!answer) throw CommError("the ranks' meeting place does not say where it listens");
  if (*answer) return *answer;
  if (const auto why = meeting_->failure_of(rank, until)) throw CommError("it has ended: " + *why);
  return std::nullopt;
}

}  // namespace sotto
