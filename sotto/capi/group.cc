#include <cmath>
#include <utility>

#include "sotto/aggregate/aggregate.h"
#include "sotto/capi/callers.h"
#include "sotto/capi/vector_gossip.h"
#include "sotto/comm/group/store.h"
#include "sotto/comm/tcp/store_group.h"

using namespace sotto;        // NOLINT(google-build-using-namespace): functions of C have none
using namespace sotto::capi;  // NOLINT(google-build-using-namespace)

struct sotto_gossiper {
  VectorGossip gossip;
};

namespace {

class CallersStore final : public Store {
 public:
  explicit CallersStore(const sotto_store& calls) : calls_(calls) {}
  ~CallersStore() override {
    if (calls_.release != nullptr) calls_.release(calls_.context);
  }
  CallersStore(const CallersStore&) = delete;
  CallersStore& operator=(const CallersStore&) = delete;

  void set(const std::string& key, const std::string& value) override {
    check_status(calls_.set(calls_.context, key.c_str(), value.data(), value.size()));
  }
  std::string get(const std::string& key) override {
    if (auto value = find(key)) return *std::move(value);
    throw MissingKey("nobody has written " + key);
  }
  bool check(const std::string& key) override { return find(key).has_value(); }
  std::int64_t add(const std::string& key, std::int64_t number) override {
    std::int64_t sum = 0;
    check_status(calls_.add(calls_.context, key.c_str(), number, &sum));
    return sum;
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    if (!expected.empty()) throw std::logic_error("this store replaces no values");
    std::optional<std::string> value;
    const sotto_sink sink = into(value);
    check_status(calls_.set_first(calls_.context, key.c_str(), desired.data(), desired.size(), &sink));
    if (!value) throw StoreClosed("the store gave no value of " + key);
    return *std::move(value);
  }
  void remove(const std::string& /*key*/) override { throw std::logic_error("this store removes no keys"); }

 private:
  static sotto_sink into(std::optional<std::string>& value) {
    return {[](void* to, const void* data, std::size_t bytes) {
              static_cast<std::optional<std::string>*>(to)->emplace(static_cast<const char*>(data), bytes);
            },
            &value};
  }
  std::optional<std::string> find(const std::string& key) {
    std::optional<std::string> value;
    const sotto_sink sink = into(value);
    check_status(calls_.find(calls_.context, key.c_str(), &sink));
    return value;
  }
  static void check_status(int status) {
    if (status != 0) throw StoreClosed("the store is gone");
  }

  sotto_store calls_;
};

std::chrono::milliseconds milliseconds(double seconds) {
  if (!(seconds >= 0)) throw ConfigError(named("timeout") + ": wants seconds above 0");
  if (seconds == 0) seconds = 60;
  constexpr double most = std::chrono::duration<double>(Deadline::longest).count();
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(std::min(seconds, most) * 1000)));
}

}  // namespace

sotto_status sotto_group_create(const sotto_store* store, int rank, int ranks, const sotto_group_options* given,
                                sotto_group** made) {
  return guarded([&] {
    require(store, "store");
    require(made, "made");
    const auto calls = std::make_shared<CallersStore>(*store);  // which also calls release() after an error
    require(reinterpret_cast<const void*>(store->set), "set of the store");
    require(reinterpret_cast<const void*>(store->find), "find of the store");
    require(reinterpret_cast<const void*>(store->add), "add of the store");
    require(reinterpret_cast<const void*>(store->set_first), "set_first of the store");
    if (ranks < 1 || rank < 0 || rank >= ranks) {
      throw ConfigError("rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                        ": a rank is below their number");
    }
    const auto options = read_options(given);
    if (options.streams < 0 || options.streams > 64) throw ConfigError(named("streams") + ": wants 1 to 64");
    auto [communicator, encrypts] = connect_through_store(calls, rank, ranks,
                                                          {.deadline = milliseconds(options.timeout),
                                                           .encrypt = options.plain == 0,
                                                           .interface = text_or(options.interface, ""),
                                                           .near_host = text_or(options.near_host, ""),
                                                           .streams = std::max(1, options.streams)});
    *made = new sotto_group{std::move(communicator), encrypts};
  });
}

void sotto_group_free(sotto_group* group) { delete group; }

int sotto_group_rank(const sotto_group* group) { return group->communicator->rank(); }
int sotto_group_ranks(const sotto_group* group) { return group->communicator->size(); }
int sotto_group_encrypts(const sotto_group* group) { return group->encrypts ? 1 : 0; }

void sotto_group_give_up(sotto_group* group, const char* reason) {
  guarded([&] { group->communicator->give_up(text_or(reason, "the caller gave up")); });
}

sotto_status sotto_aggregate(sotto_group* group, float* values, size_t count, sotto_op op, double denominator) {
  return guarded([&] {
    require(group, "group");
    const auto data = span_of(values, count, "values");
    if (op < SOTTO_AVG || op > SOTTO_MAX) throw ConfigError(named("op") + ": it is none of the four");
    static_assert(static_cast<int>(Op::max) == SOTTO_MAX);
    aggregate(data, static_cast<Op>(op), *group->communicator, denominator);
  });
}

sotto_status sotto_gossiper_create(sotto_group* group, const char* topology, const char* mixing, const char* codec,
                                   uint64_t seed, int threads, sotto_gossiper** made) {
  return guarded([&] {
    require(group, "group");
    require(topology, "topology");
    require(made, "made");
    try {
      const GossipOptions options{.topology = read_topology(topology),
                                  .mixing = read_mixing(text_or(mixing, "")),
                                  .codec = read_recipe(text_or(codec, "none")),
                                  .seed = seed,
                                  .codec_threads = read_threads(threads)};
      *made = new sotto_gossiper{VectorGossip(options, group->communicator)};
    } catch (const std::exception& error) {
      group->communicator->give_up(error.what());
      throw;
    }
  });
}

void sotto_gossiper_free(sotto_gossiper* gossiper) { delete gossiper; }

sotto_status sotto_gossiper_mix(sotto_gossiper* gossiper, float* values, size_t count, double* weight) {
  return guarded([&] {
    require(gossiper, "gossiper");
    require(weight, "weight");
    *weight = gossiper->gossip.mix(span_of(values, count, "values"), *weight, "");
  });
}

uint64_t sotto_gossiper_round(const sotto_gossiper* gossiper) { return gossiper->gossip.round(); }
