#include "sotto/comm/group/heartbeat.h"

#include <fmt/format.h>

#include "sotto/comm/group/bounded_store.h"
#include "sotto/comm/group/membership_keys.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
namespace keys = membership_keys;

constexpr auto pause_between = 500ms;
constexpr auto reach_limit = 5s, farewell_limit = 2s;

}  // namespace

Heartbeat::Heartbeat(const World& world) : world_(world), thread_(start_thread("the heartbeat", [this] { run(); })) {}

Heartbeat::~Heartbeat() {
  {
    const Lock lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Heartbeat::enter(std::uint64_t generation) {
  generation_ = generation;
  change_ = over_ = false;
}

void Heartbeat::farewell(Farewell farewell) {
  const Lock lock(mutex_);
  farewell_ = std::move(farewell);
}

void Heartbeat::run() {
  const Stop stop = [this] { return ends_ ? 1 : 0; };
  StorePtr store;
  std::uint64_t beats = 0;
  while (true) {
    try {
      if (!store && !ends_) {
        store = std::make_shared<BoundedStore>(world_.store_service().join(world_.host, world_.port, reach_limit, stop),
                                               "the coordinator", reach_limit);
      }
      if (store) {
        store->set(keys::beat(world_.id), fmt::format("{} {}", ++beats, step_.load().count()));
        const std::uint64_t generation = generation_;
        const bool change = store->check(keys::change(generation));
        const bool over = store->check(keys::any_left(generation));
        if (generation == generation_) {
          change_ = change_ || change;
          over_ = over_ || over;
        }
      }
    } catch (const std::exception&) {
      store.reset();
    }
    Lock lock(mutex_);
    const auto ends = [this]() SOTTO_REQUIRES(mutex_) { return ends_.load(); };
    if (!ended_.wait_for(lock, pause_between, ends)) continue;
    const std::string words = text_of(farewell_);
    lock.unlock();
    try {
      if (!store) store = world_.store_service().join(world_.host, world_.port, farewell_limit, {});
      store->set(keys::farewell(world_.id), words);
    } catch (const std::exception&) {  // the coordinator is gone
    }
    return;
  }
}

}  // namespace sotto
