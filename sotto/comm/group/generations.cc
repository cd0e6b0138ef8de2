#include "sotto/comm/group/generations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr int most_without_progress = 5;

std::string come_text(const std::vector<int>& ids) {
  return ids.size() == 1 ? fmt::format("rank {} has come", ids.front())
                         : fmt::format("ranks {} have come", fmt::join(ids, ", "));
}

void append(std::string& list, const std::string& why) {
  if (!why.empty()) list += (list.empty() ? "" : "; ") + why;
}

}  // namespace

OnFailure read_on_failure(std::string_view text) {
  if (text == "continue") return OnFailure::go_on;
  if (text == "stop") return OnFailure::stop;
  if (text == "checkpoint") return OnFailure::checkpoint;
  throw ConfigError(fmt::format("{}: must be continue, stop or checkpoint", named("on-failure", std::string(text))));
}

Generations::Generations(std::size_t least, std::size_t most, std::uint64_t number, std::vector<int> members,
                         OnFailure on_failure)
    : least_(least), most_(most), number_(number), members_(std::move(members)), on_failure_(on_failure) {
  for (const int id : members_) there_[id] = State::runs;
}

std::vector<int> Generations::of(State state) const {
  std::vector<int> ids;
  for (const auto& [id, is] : there_) {
    if (is == state) ids.push_back(id);
  }
  return ids;
}

std::vector<int> Generations::there() const {
  std::vector<int> ids;
  for (const auto& [id, is] : there_) ids.push_back(id);
  return ids;
}

std::vector<int> Generations::waiting() const { return of(State::waits); }
std::vector<int> Generations::awaited() const { return of(State::runs); }

void Generations::come(int id) { there_[id] = State::waits; }

void Generations::lose(int id, const std::string& why) {
  if (remove_member(id, why) && on_failure_ != OnFailure::go_on && !saves_) append(failure_, why);
}

void Generations::withdraw(int id, const std::string& why) { remove_member(id, why); }

// Returns whether it was one.
bool Generations::remove_member(int id, const std::string& why) {
  const auto found = there_.find(id);
  if (found == there_.end()) return false;
  const bool was_member = found->second != State::waits;
  there_.erase(found);
  if (!was_member) return false;
  append(lost_, why);
  if (!changing_) changing_ = Clock::now();
  return true;
}

void Generations::leave(int id) {
  const auto found = there_.find(id);
  if (found == there_.end()) return;
  ended_ = ended_ || found->second != State::waits;
  there_.erase(found);
}

void Generations::stop(const std::string& why) {
  on_failure_ = OnFailure::checkpoint;
  failure_ = why;
}

void Generations::report(int id, std::string why, bool moved) {
  moved_ = moved_ || moved;
  there_[id] = State::reported;
  if (reported_.empty()) reported_ = std::move(why);
  if (!changing_) changing_ = Clock::now();
}

bool Generations::wants_change() const {
  const std::size_t waiting = of(State::waits).size();
  return !changing_ && waiting > 0 && waiting < there_.size() && there_.size() - waiting < most_;
}

bool Generations::over() const {
  return ended_ && std::ranges::all_of(there_, [](const auto& one) { return one.second == State::waits; });
}

bool Generations::next() {
  if (over() || there_.empty() || !awaited().empty()) return false;
  const bool ends = !failure_.empty();
  std::vector<int> ids = of(State::reported), came = ends ? std::vector<int>() : of(State::waits);
  if (ends && (on_failure_ == OnFailure::stop || ids.empty())) return false;
  came.resize(std::min(came.size(), most_ - std::min(most_, ids.size())));
  if (!ends && !ended_ && ids.size() + came.size() < least_) return false;
  ids.insert(ids.end(), came.begin(), came.end());
  std::ranges::sort(ids);

  without_progress_ = ids == members_ && lost_.empty() && !moved_ ? without_progress_ + 1 : 0;
  reason_ = !lost_.empty() ? lost_ : !came.empty() ? come_text(came) : reported_;
  if (without_progress_ > most_without_progress) {
    no_progress_ =
        fmt::format("{}; no rank has ended, but they lost each other {} times", reason_, most_without_progress);
    return false;
  }
  saves_ = ends;
  ++number_;
  members_ = std::move(ids);
  for (const int id : members_) there_[id] = State::runs;
  changing_.reset();
  lost_.clear();
  reported_.clear();
  moved_ = false;
  return true;
}

}  // namespace sotto
