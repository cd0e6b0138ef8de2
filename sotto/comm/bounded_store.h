#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "sotto/comm/stop.h"
#include "sotto/core/timer.h"

namespace sotto {

// A store that answers every request within a limit, or throws CommError, as it does when its server is gone. c10d's
// own client waits forever for a server that is stopped or unreachable; its time-out applies only to waiting for keys,
// and that error stays c10d's (DistStoreError). After one late answer every later request fails at once.
//
// A wait for keys also ends, with a DistStoreError, when it is in vain: when the rank that should write them is lost.
class BoundedStore final : public c10d::Store {
 public:
  // Why nobody should wait for keys of a store any more, as that store says; nothing while ranks may.
  using WhyInVain = std::function<std::optional<std::string>(c10d::Store&)>;

  // `place` names the store in errors. `limit` also applies to waiting for keys. If `store` is a part of another
  // BoundedStore, what ends waits in that one ends them here, too.
  BoundedStore(c10::intrusive_ptr<c10d::Store> store, std::string place, std::chrono::milliseconds limit);

  // The same store with the time limit `end`; requests also end when `stop` says so.
  c10::intrusive_ptr<BoundedStore> until(Clock::time_point end, Stop stop = {}) const;
  // The same store; waits end when `why` says so.
  c10::intrusive_ptr<BoundedStore> unless(WhyInVain why) const;
  std::optional<std::string> why_in_vain();

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

 private:
  struct Inner {
    c10::intrusive_ptr<c10d::Store> store;
    c10::intrusive_ptr<BoundedStore> outer;  // of which `store` is a part; or null
    std::string place;
    std::atomic<bool> silent = false;
  };
  BoundedStore(std::shared_ptr<Inner> inner, std::chrono::milliseconds limit, Clock::time_point end, Stop stop);
  template <class Request>
  auto ask(Request request);

  std::shared_ptr<Inner> inner_;
  std::chrono::milliseconds limit_;
  Clock::time_point end_ = Clock::time_point::max();
  Stop stop_;
  WhyInVain why_in_vain_;
};

}  // namespace sotto
