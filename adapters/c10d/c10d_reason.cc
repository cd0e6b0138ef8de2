#include "adapters/c10d/c10d_reason.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/comm/group/meeting.h"

namespace sotto {

std::string plain_reason(std::string_view what, std::chrono::milliseconds deadline) {
  const auto says = [what](std::string_view part) { return what.find(part) != what.npos; };
  if (says("imed out")) return fmt::format("timed out after {:g} s", std::chrono::duration<double>(deadline).count());
  if (says("closed by peer") || says("reset by peer") || says("roken pipe")) {
    return peer_ended;
  }
  what = what.substr(0, what.find('\n'));
  if (what.starts_with('[')) what.remove_prefix(std::min(what.find(']') + 2, what.size()));  // "[file.cc:12] "
  return std::string(what.substr(0, 160));
}

}  // namespace sotto
