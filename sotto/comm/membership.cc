#include "sotto/comm/membership.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "sotto/comm/bounded_store.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/meeting.h"
#include "sotto/comm/meeting_place.h"
#include "sotto/comm/membership_keys.h"
#include "sotto/comm/patience.h"
#include "sotto/comm/visible_text.h"
#include "sotto/core/error.h"
#include "sotto/core/output.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
namespace keys = membership_keys;

constexpr char failed_mark = '-', ended_mark = '+';  // the first character of a farewell
constexpr auto answer_limit = 30s;                   // to one request
constexpr auto absence_limit = 10min;                // a coordinator may be started again, with its state
constexpr auto silent_limit = 5s;                    // then a rank says for whom it waits

// Of the keys of a generation's meeting.
std::string prefix_of(std::uint64_t generation) {
  return generation == 0 ? std::string("sotto") : fmt::format("sotto/{}", generation);
}

std::vector<int> read_ids(const std::string& text) {
  std::istringstream words(text);
  std::vector<int> ids;
  for (int id = 0; words >> id;) ids.push_back(id);
  return ids;
}

std::string text_at(c10d::Store& store, const std::string& key) {
  const auto said = store.get(key);
  return {said.begin(), said.end()};
}

template <class Number>
Number read_number(const std::string& text) {
  if (const auto number = parsed<Number>(text)) return *number;
  throw CommError(fmt::format("the ranks' store says `{}` where a number is due", visible(text)));
}

// Asks the store until there is an answer. A coordinator may be gone for a while; its next one has a new store.
template <class Request>
auto ask(const World& world, const Stop& stop, Request request) {
  const auto begin = Clock::now();
  const auto until = begin + (world.coordinated ? Clock::duration(absence_limit) : answer_limit);
  const std::string server = world.coordinated ? "the coordinator" : "the launcher";
  const std::string place = fmt::format("{} at {}:{}", server, world.host, world.port);
  const auto ends = [&] { return !world.coordinated || Clock::now() > until; };
  bool told = !world.coordinated;
  const Stop look = [&] {
    if (!told && Clock::now() >= begin + silent_limit) {
      told = true;
      write_text(stderr, fmt::format("sotto: {} does not answer; it is tried for {} minutes\n", place,
                                     std::chrono::minutes(absence_limit).count()));
    }
    return stop ? stop() : 0;
  };
  for (Patience patience(1s);; patience.pause(until)) {
    const auto left = std::max(1ms, std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()));
    const auto store =
        c10::make_intrusive<BoundedStore>(join_store(world.host, world.port, left, look, server), place, answer_limit);
    try {
      return request(*store);
    } catch (const Stopped&) {
      throw;
    } catch (const c10::DistStoreError&) {  // it has not said something for `answer_limit`
      if (ends()) throw CommError(fmt::format("{} knows nothing of this job; is it {} of another one?", place, server));
    } catch (const std::exception&) {
      if (ends()) throw;
    }
  }
}

struct Seat {
  std::optional<World> world;
  std::string error;  // why there is none; empty: the run has come to its end
};

// The place of this rank in a generation. A former member has one in the generation after its own, or none any more; a
// newcomer waits until it has one.
Seat wait_for(bool member, World world, c10d::Store& store, const Stop& stop) {
  const std::uint64_t first = world.generation + (member ? 1 : 0);
  for (Patience patience(50ms);; patience.pause(Clock::time_point::max())) {
    throw_if_stopped(stop, fmt::format("rank {}: stopped by a signal while the ranks were counted", world.id));
    if (store.check({keys::end})) return {.world = {}, .error = visible(text_at(store, keys::end))};
    if (!member && store.check({keys::gone(world.id)})) {
      return {.world = {}, .error = visible(text_at(store, keys::gone(world.id)))};
    }
    if (!store.check({keys::latest})) continue;
    const auto latest = read_number<std::uint64_t>(text_at(store, keys::latest));
    if (latest < first) continue;
    const std::vector<int> ids = read_ids(text_at(store, keys::members(latest)));
    const auto own = std::ranges::find(ids, world.id);
    if (own == ids.end() && !member) continue;
    if (own == ids.end()) {
      return {
          .world = {},
          .error = fmt::format("rank {}: the job goes on without it, with ranks {}", world.id, fmt::join(ids, ", "))};
    }
    world.generation = latest;
    world.rank = static_cast<int>(own - ids.begin());
    world.size = static_cast<int>(ids.size());
    if (is_loopback(world.host)) {  // all on this machine
      world.local_rank = world.rank;
      world.local_size = world.size;
    }
    world.prefix = prefix_of(latest);
    const bool saves = store.check({keys::failure(latest)});
    world.failure = saves ? visible(text_at(store, keys::failure(latest))) : "";
    return {.world = world, .error = ""};
  }
}

}  // namespace

void Roster::hear(Generations& generations) {
  const std::uint64_t number = generations.number();
  if (!generations.changing() && !store_.find(keys::any_left(number))) return;
  for (const int id : generations.awaited()) {
    auto why = store_.find(keys::left(number, id));
    if (why) generations.report(id, visible(*why), store_.find(keys::moved(number)).has_value());
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

void Roster::open(JobSize size, int first_id) {
  store_.set(keys::next_id, std::to_string(first_id));
  store_.set(keys::least, std::to_string(size.least));
  store_.set(keys::most, std::to_string(size.most));
}

int Roster::joined() const { return read_number<int>(store_.find(keys::next_id).value_or("")); }
std::optional<std::string> Roster::beat(int id) const { return store_.find(keys::beat(id)); }

std::chrono::milliseconds Roster::patience(int id, std::chrono::milliseconds least) const {
  const std::string text = beat(id).value_or("");
  const auto blank = text.find(' ');
  if (blank == std::string::npos) return least;
  return std::max(least, 3 * std::chrono::milliseconds(read_number<std::int64_t>(text.substr(blank + 1))));
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

void Roster::turn_away(int id, const std::string& why) { store_.set(keys::gone(id), why); }
void Roster::ask_for_change(const Generations& generations) { store_.set(keys::change(generations.number()), "yes"); }
void Roster::close(const std::string& error) { store_.set(keys::end, error); }

World next_generation(const World& world, const std::string& reason, bool moved, const Stop& stop) {
  Seat seat = ask(world, stop, [&](c10d::Store& store) {
    if (moved) store.set(keys::moved(world.generation), "yes");
    store.set(keys::left(world.generation, world.id), reason);
    store.set(keys::any_left(world.generation), "yes");
    return wait_for(true, world, store, stop);
  });
  if (!seat.world)
    throw CommError(seat.error.empty() ? fmt::format("rank {}: the others have ended the run", world.id) : seat.error);
  return *seat.world;
}

std::optional<World> join_generation(const World& world, const Stop& stop) {
  Seat seat = ask(world, stop, [&](c10d::Store& store) { return wait_for(false, world, store, stop); });
  if (!seat.error.empty()) throw CommError(seat.error);
  return seat.world;
}

JobSize size_of_job(const World& world) {
  return ask(world, {}, [](c10d::Store& store) {
    const auto number = [&](const std::string& key) { return read_number<std::size_t>(text_at(store, key)); };
    return JobSize{.least = number(keys::least), .most = number(keys::most)};
  });
}

int join_job(const World& world, const Stop& stop) {
  return ask(world, stop, [](c10d::Store& store) {
    store.wait({keys::most});
    return static_cast<int>(store.add(keys::next_id, 1)) - 1;
  });
}

void end_in_job(const World& world, int id, const std::string& why) {
  try {
    const std::string words = text_of({.failed = true, .words = why});
    const auto store = join_store(world.host, world.port, 2s, {});
    if (store->check({keys::farewell(id)})) return;  // it has said so itself
    store->set(keys::farewell(id), std::vector<std::uint8_t>(words.begin(), words.end()));
  } catch (const std::exception&) {  // the coordinator has ended, too
  }
}

}  // namespace sotto
