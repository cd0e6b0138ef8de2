#include <cmath>
#include <utility>

#include "sotto/capi/callers.h"
#include "sotto/capi/vector_gossip.h"
#include "sotto/comm/group/bounded_store.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/tcp/store_group.h"

using namespace sotto;        // NOLINT(google-build-using-namespace): functions of C have none
using namespace sotto::capi;  // NOLINT(google-build-using-namespace)

struct sotto_meeting {
  std::shared_ptr<Meeting> meeting;
  int rank = 0, ranks = 1;
};

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

void check_ranks(int rank, int ranks) {
  if (ranks >= 1 && rank >= 0 && rank < ranks) return;
  throw ConfigError("rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": a rank is below their number");
}

StoreGroupOptions read_group(const sotto_group_options* given) {
  const auto options = read_options(given);
  if (options.streams < 0 || options.streams > 64) throw ConfigError(named("streams") + ": wants 1 to 64");
  return {.deadline = milliseconds(options.timeout),
          .encrypt = options.plain == 0,
          .interface = text_or(options.interface, ""),
          .near_host = text_or(options.near_host, ""),
          .streams = std::max(1, options.streams)};
}

// A store that rank 0 serves. It must close last, and so waits a moment for the others' end.
class OwnStore {
 public:
  OwnStore(const std::string& host, std::uint16_t port, int rank, int ranks, const std::optional<Secret>& secret,
           std::chrono::milliseconds deadline)
      : rank_(rank), ranks_(ranks) {
    const TcpStores stores(secret);
    if (ranks == 1) {
      store_ = make_memory_store();
    } else if (rank == 0) {
      store_ = stores.serve(host, port, deadline, {}).store;
    } else {
      store_ = stores.join(host, port, deadline, {}, "rank 0");
    }
  }
  ~OwnStore() {
    try {
      constexpr std::chrono::seconds most(2);
      const auto end = Clock::now() + most;
      BoundedStore last(store_, "the store", most);
      last.add("gone", 1);
      for (Patience patience(std::chrono::milliseconds(50));
           rank_ == 0 && last.add("gone", 0) < ranks_ && Clock::now() < end;) {
        patience.pause(end);
      }
    } catch (const std::exception&) {  // the store is gone
    }
  }
  OwnStore(const OwnStore&) = delete;
  OwnStore& operator=(const OwnStore&) = delete;
  Store* get() const { return store_.get(); }

 private:
  int rank_, ranks_;
  StorePtr store_;
};

}  // namespace

sotto_status sotto_store_open(const char* host, uint16_t port, int rank, int ranks, const char* secret, double timeout,
                              sotto_store* opened) {
  return guarded([&] {
    require(host, "host");
    require(opened, "opened");
    check_ranks(rank, ranks);
    if (port == 0 && ranks > 1) throw ConfigError("port 0: say at which port all ranks find rank 0");
    std::optional<Secret> known;
    if (secret != nullptr) known = read_secret(secret);
    const auto deadline = std::min(milliseconds(timeout), Deadline::longest);
    const auto own = std::make_shared<OwnStore>(host, port, rank, ranks, known, deadline);
    *opened = calls_of(StorePtr(own, own->get()));
  });
}

sotto_status sotto_meeting_create(const sotto_store* store, int rank, int ranks, double timeout, sotto_meeting** made) {
  return guarded([&] {
    require(store, "store");
    require(made, "made");
    const auto calls = std::make_shared<CallersStore>(*store);  // which also calls release() after an error
    require(reinterpret_cast<const void*>(store->set), "set of the store");
    require(reinterpret_cast<const void*>(store->find), "find of the store");
    require(reinterpret_cast<const void*>(store->add), "add of the store");
    require(reinterpret_cast<const void*>(store->set_first), "set_first of the store");
    check_ranks(rank, ranks);
    const auto deadline = std::min(milliseconds(timeout), Deadline::longest);
    *made = new sotto_meeting{std::make_shared<Meeting>(calls, deadline, rank, ranks, "tcp"), rank, ranks};
  });
}

void sotto_meeting_free(sotto_meeting* meeting) { delete meeting; }

void sotto_meeting_give_up(sotto_meeting* meeting, const char* reason) {
  guarded([&] { meeting->meeting->give_up(text_or(reason, "the caller gave up")); });
}

sotto_status sotto_meeting_connect(sotto_meeting* meeting, const sotto_group_options* given, sotto_group** made) {
  return guarded([&] {
    require(meeting, "meeting");
    require(made, "made");
    auto [communicator, encrypts] = connect_at(meeting->meeting, meeting->rank, meeting->ranks, read_group(given));
    *made = new sotto_group{std::move(communicator), encrypts};
  });
}

sotto_status sotto_group_create(const sotto_store* store, int rank, int ranks, const sotto_group_options* options,
                                sotto_group** made) {
  sotto_meeting* meeting = nullptr;
  const sotto_status met =
      sotto_meeting_create(store, rank, ranks, options == nullptr ? 0 : options->timeout, &meeting);
  if (met != SOTTO_OK) return met;
  const std::unique_ptr<sotto_meeting> end(meeting);
  return sotto_meeting_connect(meeting, options, made);
}

void sotto_group_free(sotto_group* group) { delete group; }

int sotto_group_rank(const sotto_group* group) { return group->communicator->rank(); }
int sotto_group_ranks(const sotto_group* group) { return group->communicator->size(); }
int sotto_group_encrypts(const sotto_group* group) { return group->encrypts ? 1 : 0; }

void sotto_group_give_up(sotto_group* group, const char* reason) {
  guarded([&] { group->communicator->give_up(text_or(reason, "the caller gave up")); });
}

sotto_status sotto_group_gather(sotto_group* group, const void* data, size_t bytes, sotto_sink sink) {
  return guarded([&] {
    require(group, "group");
    gather(*group->communicator, data, bytes, sink);
  });
}

sotto_status sotto_aggregate(sotto_group* group, const sotto_tensor* tensor, const sotto_aggregate_options* options) {
  return guarded([&] {
    require(group, "group");
    const auto read = read_options(options);
    if (read.timeout != 0) group->communicator->set_deadline(milliseconds(read.timeout));
    aggregate(tensor, read, *group->communicator);
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

sotto_status sotto_gossiper_mix(sotto_gossiper* gossiper, float* values, size_t count, const char* form,
                                double* weight) {
  return guarded([&] {
    require(gossiper, "gossiper");
    require(weight, "weight");
    *weight = gossiper->gossip.mix(span_of(values, count, "values"), *weight, text_or(form, ""));
  });
}

uint64_t sotto_gossiper_round(const sotto_gossiper* gossiper) { return gossiper->gossip.round(); }

sotto_status sotto_gossiper_topology(const sotto_gossiper* gossiper, sotto_sink sink) {
  return guarded([&] {
    require(gossiper, "gossiper");
    give(gossiper->gossip.topology(), sink);
  });
}

sotto_status sotto_gossiper_exact_after(const sotto_gossiper* gossiper, int64_t* rounds) {
  return guarded([&] {
    require(gossiper, "gossiper");
    require(rounds, "rounds");
    const auto after = gossiper->gossip.consensus().exact_after;
    *rounds = after ? static_cast<int64_t>(*after) : -1;
  });
}
