#include "sotto/comm/membership.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "sotto/comm/bounded_store.h"
#include "sotto/comm/meeting.h"
#include "sotto/comm/meeting_place.h"
#include "sotto/comm/patience.h"
#include "sotto/comm/visible_text.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

constexpr auto answer_limit = 30s;  // of the launcher's store, to one request

// Of the keys of a generation's meeting.
std::string prefix_of(std::uint64_t generation) {
  return generation == 0 ? std::string("sotto") : fmt::format("sotto/{}", generation);
}
std::string ids_key(std::uint64_t generation) { return fmt::format("members/{}", generation); }
std::string any_lost_key(std::uint64_t generation) { return fmt::format("lost/{}", generation); }
std::string lost_key(std::uint64_t generation, int id) { return fmt::format("lost/{}/{}", generation, id); }

std::vector<int> read_ids(const std::string& text) {
  std::istringstream words(text);
  std::vector<int> ids;
  for (int id = 0; words >> id;) ids.push_back(id);
  return ids;
}

c10::intrusive_ptr<c10d::Store> store_of(const World& world, const Stop& stop) {
  return c10::make_intrusive<BoundedStore>(join_store(world.host, world.port, answer_limit, stop),
                                           fmt::format("the launcher at {}:{}", world.host, world.port), answer_limit);
}

World wait_for(std::uint64_t generation, World world, c10d::Store& store, const Stop& stop) {
  const std::string key = ids_key(generation);
  for (Patience patience(50ms); !store.check({key}); patience.pause(Clock::time_point::max())) {
    if (const int signal = stop ? stop() : 0; signal != 0) {
      throw Stopped(fmt::format("rank {}: stopped by a signal while the ranks were counted", world.id), signal);
    }
  }
  const auto said = store.get(key);
  const std::vector<int> ids = read_ids({said.begin(), said.end()});
  const auto own = std::ranges::find(ids, world.id);
  if (own == ids.end()) {
    throw CommError(fmt::format("rank {}: the job goes on without it, with ranks {}", world.id, fmt::join(ids, ", ")));
  }
  world.generation = generation;
  world.rank = world.local_rank = static_cast<int>(own - ids.begin());
  world.size = world.local_size = static_cast<int>(ids.size());
  world.prefix = prefix_of(generation);
  return world;
}

}  // namespace

bool Roster::any_lost(std::uint64_t generation) { return store_.find(any_lost_key(generation)).has_value(); }

std::optional<std::string> Roster::lost(std::uint64_t generation, int id) {
  if (auto said = store_.find(lost_key(generation, id))) return visible(*said);
  return std::nullopt;
}

void Roster::end_meeting(std::uint64_t generation, int rank, const std::string& error) {
  Meeting::end_for(store_, prefix_of(generation), rank, error);
}

void Roster::announce(std::uint64_t generation, const std::vector<int>& ids) {
  store_.set(ids_key(generation), fmt::format("{}", fmt::join(ids, " ")));
}

World next_generation(const World& world, const std::string& reason, const Stop& stop) {
  const auto store = store_of(world, stop);
  store->set(lost_key(world.generation, world.id), reason);
  store->set(any_lost_key(world.generation), "yes");
  return wait_for(world.generation + 1, world, *store, stop);
}

World join_generation(const World& world, const Stop& stop) {
  return wait_for(world.generation, world, *store_of(world, stop), stop);
}

}  // namespace sotto
