#include "app/launch/elastic_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr int patience_to_start = 5;  // a new rank reads its data before its first heartbeat

}  // namespace

ElasticGroup::ElasticGroup(const LaunchSpec& spec, StoreServer& store, RankStarter& starter, Console& console)
    : spec_(spec),
      starter_(starter),
      console_(console),
      roster_(store),
      generations_(static_cast<std::size_t>(spec.least_ranks), static_cast<std::size_t>(spec.ranks), 0, {},
                   spec.on_failure) {}

void ElasticGroup::begin(std::size_t ranks) {
  for (int id = 0; id < static_cast<int>(ranks); ++id) {
    running_.insert(id);
    generations_.come(id);
  }
  generations_.next();
  roster_.announce(generations_);
}

void ElasticGroup::expect(int id) {
  running_.insert(id);
  inherited_[id] = roster_.beat(id);
  expected_[id] = Clock::now();
}

bool ElasticGroup::take_replacement() {
  if (!has_replacement()) return false;
  ++replaced_;
  return true;
}

void ElasticGroup::leave(int id) {
  running_.erase(id);
  expected_.erase(id);
  generations_.leave(id);
}

void ElasticGroup::withdraw(int id, const std::string& why) {
  running_.erase(id);
  expected_.erase(id);
  generations_.withdraw(id, why);
  roster_.end(generations_, id, why);
}

void ElasticGroup::stop(const std::string& why) {
  stops_ = true;
  generations_.stop(why);
}

// Whether the ranks that run, or are about to, can be a group. If they are too few, they are asked for a checkpoint,
// which they can write as long as one of them has a state.
bool ElasticGroup::goes_on(const std::string& why) {
  const std::size_t left = running_.size();
  if (left == 0) return false;
  const bool saves = spec_.on_failure == OnFailure::checkpoint || stops_;
  if (generations_.ends() || (!saves && left >= static_cast<std::size_t>(spec_.least_ranks))) return true;
  if (generations_.there() == generations_.waiting()) return false;
  if (saves) return true;
  if (spec_.on_failure == OnFailure::stop) return false;
  stop(fmt::format("{}; {} left, and {} are needed", why, left == 1 ? "one rank is" : fmt::format("{} ranks are", left),
                   spec_.least_ranks));
  return true;
}

// Whether the rank had said that it came to the end of the run, after it wrote all that it had to write.
bool ElasticGroup::was_done(int id) const {
  const auto farewell = roster_.farewell(id);
  return farewell && !farewell->failed && farewell->words.empty();
}

bool ElasticGroup::lose(std::vector<int> ids, std::string why) {
  const auto done_before = std::stable_partition(ids.begin(), ids.end(), [this](int id) { return !was_done(id); });
  for (const int id : std::span(done_before, ids.end())) leave(id);
  ids.erase(done_before, ids.end());
  if (ids.empty()) {
    console_.line(stderr, fmt::format("sotto: {}; it had come to the end of the run", why));
    return true;
  }
  // Members first: only the loss of a member is a reason to change the group.
  const std::vector<int> waiting = generations_.waiting();
  const auto is_member = [&](int id) { return generations_.is_there(id) && !std::ranges::binary_search(waiting, id); };
  const auto newcomers = std::stable_partition(ids.begin(), ids.end(), is_member);
  const bool no_member = newcomers == ids.begin();
  for (const int id : ids) {
    running_.erase(id);
    expected_.erase(id);
    given_up_.erase(id);
  }
  // All others have come to the end, among them rank 0 of the group, which writes the results.
  const bool done =
      running_.empty() && generations_.ends() && std::ranges::find(ids, generations_.members().front()) == ids.end();
  if (no_member || done) {
    console_.line(stderr, fmt::format("sotto: {}{}", why, done ? "; the run had come to its end" : ""));
  }
  if (done || (no_member && (!generations_.changing() || over()))) {  // nobody waits for them
    for (const int id : ids) generations_.lose(id, "");
    return true;
  }
  if ((running_.empty() && !has_replacement()) || (spec_.on_failure == OnFailure::stop && !stops_ && !no_member))
    return false;

  for (const int id : ids) roster_.end(generations_, id, why);
  std::vector<int> anew;
  for (const int id : ids) {
    if (!starter_.can_start(id) || !take_replacement()) break;
    try {
      inherited_[id] = roster_.beat(id);
      starter_.start_rank(id, generation() + 1);
      anew.push_back(id);
    } catch (const Error& error) {
      console_.line(stderr, fmt::format("sotto: rank {} cannot be replaced: {}", id, error.what()));
    }
  }
  if (!anew.empty()) why += ", and is replaced";
  generations_.lose(ids.front(), why);
  for (const int id : std::span(ids).subspan(1)) generations_.lose(id, "");
  for (const int id : anew) {
    running_.insert(id);
    generations_.come(id);
  }
  return goes_on(why);
}

// Takes in ranks that were started while others train.
void ElasticGroup::take_in() {
  const auto lives = [this](const auto& one) { return roster_.beat(one.first) != inherited_[one.first]; };
  if (std::ranges::all_of(expected_, lives)) {  // so the group changes once for all of them
    for (const auto& [id, started] : expected_) generations_.come(id);
    expected_.clear();
  }
  for (const auto& one : expected_) {
    if (!lives(one) && Clock::now() - one.second >= patience_to_start * spec_.patience) give_up(one.first);
  }
  if (!generations_.wants_change() || asked_ == generations_.number()) return;
  asked_ = generations_.number();
  roster_.ask_for_change(generations_);
}

void ElasticGroup::look_after() {
  roster_.hear(generations_);
  if (generations_.over()) return;
  if (!stops_) take_in();
  if (!generations_.changing()) return;
  if (generations_.next()) {
    console_.line(stderr, fmt::format("sotto: {}; {} ranks {}", generations_.reason(),
                                      generations_.failure().empty() ? "continuing with" : "a checkpoint is written by",
                                      fmt::join(generations_.members(), ", ")));
    return roster_.announce(generations_);
  }
  // Members that have not left their group after others did, and are silent, or take too long.
  if (!no_progress().empty()) return;
  const auto waited = Clock::now() - *generations_.changing();
  for (const int id : generations_.awaited()) {
    if (is_silent(id) || waited >= roster_.patience(id, spec_.patience)) give_up(id);
  }
}

// Whether a member has sent no heartbeat for long since the group began to change, though it had sent some before.
bool ElasticGroup::is_silent(int id) {
  const auto now = Clock::now();
  Sign& last = heard_[id];
  if (auto beat = roster_.beat(id); last.time < *generations_.changing() || beat != last.beat) {
    last = {.beat = std::move(beat), .time = now};
  }
  return last.beat != inherited_[id] && now - last.time >= spec_.silence;
}

void ElasticGroup::give_up(int id) {
  if (given_up_.insert(id).second) starter_.give_up_rank(id);
}

}  // namespace sotto
