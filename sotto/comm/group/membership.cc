#include "sotto/comm/group/membership.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <sstream>
#include <utility>

#include "sotto/comm/group/bounded_store.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/comm/group/membership_keys.h"
#include "sotto/comm/interfaces.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
namespace keys = membership_keys;

constexpr char failed_mark = '-', ended_mark = '+';  // the first character of a farewell
constexpr auto answer_limit = 30s;                   // to one request
constexpr auto silent_limit = 5s;                    // then a rank says for whom it waits
constexpr auto longest_patience = 24h;
constexpr std::size_t most_members = 65535;  // as of ranks (world.cc)

// Of the keys of a generation's meeting.
std::string prefix_of(std::uint64_t generation) {
  return generation == 0 ? std::string("sotto") : fmt::format("sotto/{}", generation);
}

// Whoever reaches the store may have written there, so nothing that it says is believed without bounds.
std::string text_at(Store& store, const std::string& key) { return visible(store.get(key)); }

template <class Number>
Number number_at(Store& store, const std::string& key, Number most) {
  const std::string text = text_at(store, key);
  const auto number = parsed<Number>(text);
  if (number && *number <= most) return *number;
  throw CommError(fmt::format("the ranks' store says `{}` where a number up to {} is due", text, most));
}

// Of the members of a generation, ascending.
std::vector<int> ids_at(Store& store, const std::string& key) {
  const std::string value = store.get(key);
  std::istringstream words(value);
  std::vector<int> ids;
  int id = 0, least = 0;
  for (; ids.size() <= most_members && words >> id && id >= least; least = id + 1) ids.push_back(id);
  if (words.eof() && words.fail() && !ids.empty()) return ids;  // nothing was left
  throw CommError(fmt::format("the ranks' store says `{}` where ids of ranks are due", visible(value)));
}

// Asks the store until there is an answer. A coordinator may be gone for a while; the next one has a new store. A rank
// waits for it for a limited time. This time starts again if the coordinator goes away after `request` has set
// `is_there`: it knew this job, and the rank waited only for other ranks.
template <class Request>
auto ask(const World& world, const Stop& stop, Request request) {
  const Clock::duration wait = world.coordinated ? Clock::duration(world.coordinator_wait) : answer_limit;
  const std::string server = world.coordinated ? "the coordinator" : "the launcher";
  const std::string place = fmt::format("{} at {}:{}", server, world.host, world.port);
  constexpr auto between_tries = 1s;
  auto since = Clock::now();
  const auto ends = [&] { return !world.coordinated || Clock::now() + between_tries > since + wait; };
  bool told = !world.coordinated, is_there = false;
  const Stop look = [&] {
    if (!told && Clock::now() >= since + silent_limit) {
      told = true;
      write_text(stderr, fmt::format("sotto: {} does not answer; it is tried for {} s\n", place,
                                     world.coordinator_wait.count()));
    }
    return stop ? stop() : 0;
  };
  for (Patience patience(between_tries);; patience.pause(since + wait)) {
    const auto left = std::max(1ms, std::chrono::ceil<std::chrono::milliseconds>(since + wait - Clock::now()));
    const auto store = std::make_shared<BoundedStore>(
        world.store_service().join(world.host, world.port, left, look, server), place, answer_limit);
    try {
      return request(*store, is_there);
    } catch (const Stopped&) {
      throw;
    } catch (const MissingKey&) {  // a key was missing for `answer_limit`
      if (ends()) throw CommError(fmt::format("{} knows nothing of this job; is it {} of another one?", place, server));
    } catch (const std::exception&) {
      if (std::exchange(is_there, false)) {
        since = Clock::now();
        told = false;
      }
      if (ends()) throw;
    }
  }
}

// The rank with that id waits for no place any more. If the coordinator has taken its application already, the rank
// counts as one that was asked to end, and the others continue.
void withdraw(Store& store, int id) {
  store.set(keys::farewell(id), text_of({.words = "it no longer waits for an answer to its application"}));
  store.remove(keys::application(id));
}

struct Seat {
  std::optional<World> world;
  std::string error;    // why there is no place; empty: the run has come to its end
  bool wanted = false;  // nobody continues, and the state of this rank should be saved
};

// The place of this rank in a generation. A former member (`member`) has a place in the generation after
// `world.generation`, or in none; a newcomer waits until it has a place. `is_there` becomes true once the rank waits
// only for others.
Seat wait_for(bool member, World world, Store& store, const Stop& stop, bool& is_there) {
  const std::uint64_t first = world.generation + (member ? 1 : 0);
  for (Patience patience(50ms);; is_there = true, patience.pause(Clock::time_point::max())) {
    throw_if_stopped(stop, fmt::format("rank {}: stopped by a signal while the ranks were counted", world.id));
    if (store.check(keys::end)) {
      return {.world = {}, .error = text_at(store, keys::end), .wanted = store.check(keys::saves)};
    }
    if (!member && store.check(keys::gone(world.id))) {
      return {.world = {}, .error = text_at(store, keys::gone(world.id))};
    }
    if (world.coordinated && !store.check(member ? keys::latest : keys::come(world.id))) {
      throw MissingKey("it has begun anew, without the state of this job");
    }
    if (!store.check(keys::latest)) continue;
    const auto latest = number_at(store, keys::latest, std::numeric_limits<std::uint64_t>::max());
    if (latest < first) continue;
    const std::vector<int> ids = ids_at(store, keys::members(latest));
    const auto own = std::ranges::find(ids, world.id);
    if (own == ids.end() && !member) continue;
    if (own == ids.end()) {
      return {
          .world = {},
          .error = fmt::format("rank {}: the job continues without it, with ranks {}", world.id, fmt::join(ids, ", "))};
    }
    world.generation = latest;
    world.rank = static_cast<int>(own - ids.begin());
    world.size = static_cast<int>(ids.size());
    if (is_loopback(world.host)) {  // all on this machine
      world.local_rank = world.rank;
      world.local_size = world.size;
    }
    world.prefix = prefix_of(latest);
    const bool saves = store.check(keys::failure(latest));
    world.failure = saves ? text_at(store, keys::failure(latest)) : "";
    return {.world = world, .error = ""};
  }
}

}  // namespace

void Roster::hear(Generations& generations) {
  const std::uint64_t number = generations.number();
  if (!generations.changing() && !store_.find(keys::any_left(number))) return;
  for (const int id : generations.awaited()) {
    auto why = store_.find(keys::left(number, id));
    if (why) generations.report(id, *why, store_.find(keys::moved(number)).has_value());
  }
}

void Roster::announce(const Generations& generations) {
  store_.set(keys::members(generations.number()), fmt::format("{}", fmt::join(generations.members(), " ")));
  if (!generations.failure().empty()) store_.set(keys::failure(generations.number()), generations.failure());
  store_.set(keys::latest, std::to_string(generations.number()));
}

void Roster::end(const Generations& generations, int id, const std::string& error) {
  const auto member = std::ranges::find(generations.members(), id);
  if (member == generations.members().end()) return;
  store_.set(keys::any_left(generations.number()), "yes");
  Meeting::end_for(store_, prefix_of(generations.number()), static_cast<int>(member - generations.members().begin()),
                   error);
}

std::vector<int> Roster::cut_off(const Generations& generations) const {
  const std::vector<int>& members = generations.members();
  const std::vector<int> closed = Meeting::closed(store_, prefix_of(generations.number()), members.size());
  std::vector<int> ids = generations.awaited();
  std::erase_if(ids, [&](int id) {
    const auto rank = std::ranges::find(members, id) - members.begin();
    return std::ranges::find(closed, rank) == closed.end();
  });
  return ids;
}

void Roster::open(JobSize size, const std::string& job) {
  store_.set(keys::job, job);
  store_.set(keys::least, std::to_string(size.least));
  store_.set(keys::most, std::to_string(size.most));
}

void Roster::give_out(int first_id) { store_.set(keys::next_id, std::to_string(first_id)); }

std::optional<int> Roster::next_id(int least, int most) const {
  const auto id = parsed<int>(store_.find(keys::next_id).value_or(""));
  return id && *id >= least && *id <= most ? id : std::nullopt;
}

std::optional<std::string> Roster::application(int id) const { return store_.find(keys::application(id)); }
std::optional<std::string> Roster::beat(int id) const { return store_.find(keys::beat(id)); }

std::chrono::milliseconds Roster::patience(int id, std::chrono::milliseconds least) const {
  constexpr std::int64_t most = std::chrono::milliseconds(longest_patience).count();
  const std::string text = beat(id).value_or("");
  const auto blank = text.find(' ');
  if (blank == std::string::npos) return least;
  const auto step = parsed<std::int64_t>(std::string_view(text).substr(blank + 1)).value_or(0);
  return std::max(least, std::chrono::milliseconds(3 * std::clamp<std::int64_t>(step, 0, most / 3)));
}

std::optional<Farewell> Roster::farewell(int id) const {
  const auto text = store_.find(keys::farewell(id));
  if (!text) return std::nullopt;
  return Farewell{.failed = text->starts_with(failed_mark),
                  .words = text->substr(std::min<std::size_t>(1, text->size()))};
}

std::string text_of(const Farewell& farewell) {
  return std::string(1, farewell.failed ? failed_mark : ended_mark) + farewell.words;
}

void Roster::admit(int id) { store_.set(keys::come(id), "yes"); }
void Roster::turn_away(int id, const std::string& why) { store_.set(keys::gone(id), why); }
void Roster::ask_for_change(const Generations& generations) { store_.set(keys::change(generations.number()), "yes"); }

void Roster::close(const std::string& error, bool saves) {
  if (saves) store_.set(keys::saves, "yes");
  store_.set(keys::end, error);
}

World next_generation(const World& world, const std::string& reason, bool moved, const Stop& stop) {
  Seat seat = ask(world, stop, [&](Store& store, bool& is_there) {
    if (moved) store.set(keys::moved(world.generation), "yes");
    store.set(keys::left(world.generation, world.id), reason);
    store.set(keys::any_left(world.generation), "yes");
    return wait_for(true, world, store, stop, is_there);
  });
  if (seat.world) return *seat.world;
  const std::string why =
      seat.error.empty() ? fmt::format("rank {}: the others have ended the run", world.id) : seat.error;
  if (seat.wanted) throw CommError(why);
  throw NotWanted(why);
}

std::optional<World> join_generation(const World& world, const Stop& stop) {
  Seat seat =
      ask(world, stop, [&](Store& store, bool& is_there) { return wait_for(false, world, store, stop, is_there); });
  if (!seat.error.empty()) throw CommError(seat.error);
  return seat.world;
}

JobSize size_of_job(const World& world) {
  return ask(world, {}, [](Store& store, bool& /*is_there*/) {
    return JobSize{.least = number_at(store, keys::least, most_members),
                   .most = number_at(store, keys::most, most_members)};
  });
}

// An id counts only once the coordinator has taken the rank's application and saved that in its state. If the
// coordinator ends before, the rank applies to the next one. If the coordinator was only busy or unreachable, it must
// not admit the rank under the former id, so the rank withdraws that application first.
int join_job(const World& world, const std::optional<Secret>& secret, const Stop& stop) {
  struct Answer {
    int id = 0;
    std::string refusal;
  };
  std::string last_job;
  int last_id = -1;  // the id with which the rank last applied, to `last_job`
  const Answer answer = ask(world, stop, [&](Store& store, bool& /*is_there*/) {
    const std::string job = text_at(store, keys::job);
    if (last_id >= 0 && job == last_job) withdraw(store, last_id);
    const std::int64_t next = store.add(keys::next_id, 1);
    if (next < 1 || next > World::most_ids) throw CommError(fmt::format("the ranks' store gives out the id {}", next));
    const int id = static_cast<int>(next) - 1;
    const std::string text = application_text(secret, job, id, this_process());
    last_job = job;
    last_id = id;
    store.set(keys::application(id), text);
    const auto until = Clock::now() + answer_limit;
    for (Patience patience(50ms); !store.check(keys::come(id)); patience.pause(until)) {
      if (store.check(keys::gone(id))) return Answer{.id = id, .refusal = text_at(store, keys::gone(id))};
      const bool stopped = stop && stop() != 0;
      if (!stopped && Clock::now() < until) continue;
      withdraw(store, id);
      throw_if_stopped(stop);
      throw CommError("the coordinator does not answer a rank that applies");
    }
    return Answer{.id = id, .refusal = ""};
  });
  if (answer.refusal.empty()) return answer.id;
  throw ConfigError(
      fmt::format("{}: {}", named("coordinator", text_of(MeetingPlace{world.host, world.port})), answer.refusal));
}

void end_in_job(const World& world, int id, const std::string& why) {
  try {
    const std::string words = text_of({.failed = true, .words = why});
    const auto store = world.store_service().join(world.host, world.port, 2s, {});
    if (store->check(keys::farewell(id))) return;  // it has said so itself
    store->set(keys::farewell(id), words);
  } catch (const std::exception&) {  // the coordinator has ended, too
  }
}

}  // namespace sotto
