#include "sotto/launch/elastic_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {

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
  expected_[id] = roster_.beat(id);
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

bool ElasticGroup::lose(std::vector<int> ids, std::string why) {
  // Members first, because only what is said of them is a reason to change the group.
  const auto newcomers = std::ranges::stable_partition(ids, [this](int id) { return !is_expected(id); });
  const bool no_member = newcomers.begin() == ids.begin();
  for (const int id : ids) {
    running_.erase(id);
    expected_.erase(id);
    given_up_.erase(id);
  }
  if (no_member) {
    console_.line(stderr, "sotto: " + why);
    return true;
  }
  const bool again = has_replacement() && starter_.can_start(ids.front());
  const std::size_t left = running_.size();
  if (spec_.on_failure == OnFailure::stop || left == 0) return false;
  const bool any_number = spec_.on_failure == OnFailure::checkpoint || generations_.ends();
  if (!any_number && left + (again ? 1 : 0) < static_cast<std::size_t>(spec_.least_ranks)) return false;

  for (const int id : ids) roster_.end_meeting(generations_, id, why);
  std::vector<int> anew;
  for (const int id : ids) {
    if (!starter_.can_start(id) || !take_replacement()) break;
    try {
      starter_.start_rank(id, generation() + 1);
      anew.push_back(id);
    } catch (const Error& error) {
      why += fmt::format(", and cannot be started anew: {}", error.what());
    }
  }
  if (!anew.empty()) why += ", and is started anew";
  for (const int id : ids) generations_.lose(id, std::exchange(why, ""));
  for (const int id : anew) {
    running_.insert(id);
    generations_.come(id);
  }
  return true;
}

// Ranks that were started while others train.
void ElasticGroup::take_in() {
  const auto lives = [this](const auto& one) { return roster_.beat(one.first) != one.second; };
  if (std::ranges::all_of(expected_, lives)) {  // so the group changes once for all of them
    for (const auto& [id, beat] : expected_) generations_.come(id);
    expected_.clear();
  }
  if (!generations_.wants_change() || asked_ == generations_.number()) return;
  asked_ = generations_.number();
  roster_.ask_for_change(generations_);
}

void ElasticGroup::look_after() {
  roster_.hear(generations_);
  if (generations_.over()) return;
  take_in();
  if (!generations_.changing()) return;
  if (generations_.next()) {
    console_.line(stderr, fmt::format("sotto: {}; {} ranks {}", generations_.reason(),
                                      generations_.failure().empty() ? "going on with" : "a checkpoint is written by",
                                      fmt::join(generations_.members(), ", ")));
    return roster_.announce(generations_);
  }
  // Members that have not left their group long after others did.
  if (!in_vain().empty() || Clock::now() - *generations_.changing() < spec_.patience) return;
  for (const int id : generations_.awaited()) {
    if (given_up_.insert(id).second) starter_.give_up_rank(id);
  }
}

}  // namespace sotto
