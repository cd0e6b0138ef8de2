#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sotto/comm/group/store.h"
#include "sotto/comm/stop.h"
#include "sotto/core/timer.h"

namespace sotto {

// A store that answers every request within a limit, or throws CommError, as it does when its server is gone. A client
// waits forever for a server that is stopped or unreachable. After one late answer every later request fails at once.
//
// A wait for a key throws MissingKey after the limit, or when it is in vain: when the rank that should write the key is
// lost.
class BoundedStore final : public Store {
 public:
  using WhyInVain = std::function<std::optional<std::string>(Store&)>;

  // `place` names the store in errors. `limit` also applies to waiting for keys. What ends waits in `store`
  // (why_in_vain()) ends them here, too.
  BoundedStore(StorePtr store, std::string place, std::chrono::milliseconds limit);

  // The same store with the time limit `end`; requests also end when `stop` says so.
  std::shared_ptr<BoundedStore> until(Clock::time_point end, Stop stop = {}) const;
  // The same store; waits end when `why` says so.
  std::shared_ptr<BoundedStore> unless(WhyInVain why) const;

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key) override;
  bool check(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t number) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  void remove(const std::string& key) override;
  std::optional<std::string> why_in_vain() override;

 private:
  struct Inner {
    StorePtr store;
    std::string place;
    std::atomic<bool> silent = false;
  };
  BoundedStore(std::shared_ptr<Inner> inner, std::chrono::milliseconds limit, Clock::time_point end, Stop stop);
  template <class Request>
  auto ask(Request request);
  void wait_for(const std::string& key);

  std::shared_ptr<Inner> inner_;
  std::chrono::milliseconds limit_;
  Clock::time_point end_ = Clock::time_point::max();
  Stop stop_;
  WhyInVain why_in_vain_;
};

}  // namespace sotto
