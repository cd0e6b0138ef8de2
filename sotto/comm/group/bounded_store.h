#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "sotto/comm/deadline.h"
#include "sotto/comm/group/store.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {

// Counts the work of bounded() that was abandoned and still blocks.
class BlockedRequest {
 public:
  static constexpr int most = 8;
  static int count() { return all; }
  void end() {
    if (state_.exchange(State::ended) == State::abandoned) all -= 1;
  }
  void abandon() {
    all += 1;
    if (state_.exchange(State::abandoned) == State::ended) all -= 1;
  }

 private:
  enum class State { awaited, abandoned, ended };
  inline static std::atomic<int> all = 0;
  std::atomic<State> state_ = State::awaited;
};

// Runs work that may block forever, for example a request to c10d's store, which has no time limit. Returns its result,
// or nothing if there is none by `until`, or when `stop` says so. Rethrows what the work throws; Error if no thread is
// available.
//
// The work runs on its own thread, since a library's blocking call cannot be cancelled. Work that takes longer is
// abandoned together with its thread, so it must own whatever it uses: no references. While too many of them are
// abandoned and still block, no new work is begun. Otherwise a server that is stopped for hours would cost more and
// more threads, since it is asked again and again.
template <class Work>
auto bounded(Clock::time_point until, const Stop& stop, Work work) -> std::optional<decltype(work())> {
  constexpr std::chrono::milliseconds look_for_stop(20);
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto answer = task.get_future();
  const auto counted = std::make_shared<BlockedRequest>();
  const bool begins = BlockedRequest::count() < BlockedRequest::most;
  if (begins) {
    start_thread("a request that may block", [task = std::move(task), counted]() mutable {
      task();
      counted->end();
    }).detach();
  }
  while (true) {
    const auto wake = stop ? std::min(until, Clock::now() + look_for_stop) : until;
    if (answer.wait_until(wake) == std::future_status::ready) return answer.get();
    if (Clock::now() < until && (!stop || stop() == 0)) continue;
    if (begins) counted->abandon();
    return std::nullopt;
  }
}

// A store that answers every request within a limit, or throws CommError. Other clients wait forever for a server that
// is stopped or unreachable. If the server is gone, this throws CommError, too. After one late answer every later
// request fails at once.
//
// A wait for a key throws MissingKey after the limit, or when there is no progress: the rank that should write the key
// is lost.
class BoundedStore final : public Store {
 public:
  using WhyNoProgress = std::function<std::optional<std::string>(Store&)>;

  // `place` names the store in errors. `limit` also applies to waiting for keys. A reason that ends waits in `store`
  // (why_no_progress()) ends them here, too.
  BoundedStore(StorePtr store, std::string place, std::chrono::milliseconds limit);

  // The same store with the time limit `end`; requests also end when `stop` says so.
  std::shared_ptr<BoundedStore> until(Clock::time_point end, Stop stop = {}) const;
  // The same store; waits end when `why` says so.
  std::shared_ptr<BoundedStore> unless(WhyNoProgress why) const;

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key) override;
  bool check(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t number) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  void remove(const std::string& key) override;
  std::optional<std::string> why_no_progress() override;

 private:
  struct Inner {
    StorePtr store;
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
  WhyNoProgress why_no_progress_;
};

}  // namespace sotto
