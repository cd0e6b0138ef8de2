#include "sotto/comm/c10d_reason.h"

#include <fmt/format.h>

#include <algorithm>

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

std::string reason_with(const std::string& reason, const std::string& cause) {
  if (cause.empty() || reason.ends_with(cause)) return reason;
  return fmt::format("{} (because of {})", reason == peer_ended ? "it gave up" : reason, cause);
}

}  // namespace sotto
