#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "sotto/capi/callers.h"
#include "sotto/comm/group/heartbeat.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/comm/group/membership.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/world.h"

using namespace sotto;        // NOLINT(google-build-using-namespace): functions of C have none
using namespace sotto::capi;  // NOLINT(google-build-using-namespace)

struct sotto_member {
  TcpStores stores;
  World world;
  std::optional<Heartbeat> heartbeat;
  std::unique_ptr<Meeting> meeting;

  void enter(const World& next) {
    world = next;
    heartbeat->enter(world.generation);
  }
};

namespace {

Stop stop_of(const int* flag) {
  if (flag == nullptr) return {};
  // Another thread of the caller's writes it.
  return [flag] { return std::atomic_ref<int>(*const_cast<int*>(flag)).load(); };
}

template <class F>
sotto_status with(sotto_member* member, F f) {
  return guarded([&] {
    require(member, "member");
    f(*member);
  });
}

}  // namespace

sotto_status sotto_member_create(const char* coordinator, const char* secret, double wait, const int* stop,
                                 sotto_member** made) {
  return guarded([&] {
    require(coordinator, "coordinator");
    require(made, "made");
    const MeetingPlace place = read_meeting_place(named("coordinator", coordinator), coordinator);
    if (!(wait >= 0 && wait <= 1e9)) throw ConfigError(named("wait") + ": wants seconds, at most 1e9");
    std::optional<Secret> known;
    if (secret != nullptr) known = read_secret(secret);
    std::unique_ptr<sotto_member> member(new sotto_member{TcpStores(known), {}, {}, {}});
    World& world = member->world;
    world.host = place.host;
    world.port = place.port;
    world.stores = &member->stores;
    world.prefix = "sotto";
    world.elastic = world.coordinated = true;
    world.coordinator_wait = std::chrono::seconds(static_cast<std::int64_t>(std::ceil(wait)));
    world.generation = 1;
    world.id = join_job(world, known, stop_of(stop));
    member->heartbeat.emplace(world);
    *made = member.release();
  });
}

void sotto_member_free(sotto_member* member) { delete member; }

sotto_status sotto_member_join(sotto_member* member, const int* stop, int* joined) {
  return with(member, [&](sotto_member& own) {
    require(joined, "joined");
    const auto world = join_generation(own.world, stop_of(stop));
    if (world) own.enter(*world);
    *joined = world ? 1 : 0;
  });
}

sotto_status sotto_member_next(sotto_member* member, const char* reason, int moved, const int* stop) {
  return with(member, [&](sotto_member& own) {
    own.meeting.reset();
    own.enter(next_generation(own.world, text_or(reason, ""), moved != 0, stop_of(stop)));
  });
}

sotto_status sotto_member_meet(sotto_member* member, double timeout, const int* stop, sotto_store* store) {
  return with(member, [&](sotto_member& own) {
    require(store, "store");
    own.meeting = std::make_unique<Meeting>(own.world, "Python's process group", milliseconds(timeout), stop_of(stop));
    *store = calls_of(own.meeting->section("python"));
  });
}

sotto_status sotto_member_info(sotto_member* member, sotto_membership* into) {
  return with(member, [&](sotto_member& own) {
    require(into, "into");
    const std::size_t known = read_options(into).bytes;
    const sotto_membership all{known,
                               own.world.id,
                               own.world.rank,
                               own.world.size,
                               own.heartbeat && own.heartbeat->wants_change() ? 1 : 0,
                               own.world.generation,
                               own.world.failure.c_str()};
    std::memcpy(into, &all, known);
  });
}

sotto_status sotto_member_leave(sotto_member* member, const char* words, int failed) {
  return with(member, [&](sotto_member& own) {
    own.meeting.reset();
    if (own.heartbeat) own.heartbeat->farewell({.failed = failed != 0, .words = text_or(words, "")});
    own.heartbeat.reset();
  });
}
