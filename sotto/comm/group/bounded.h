#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "sotto/comm/stop.h"
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
// or nothing if there is none by `until` or when `stop` says so. Rethrows what the work throws; Error if no thread is
// available.
//
// The work runs on its own thread, since a library's blocking call cannot be cancelled. Work that takes longer is
// abandoned together with its thread, so it must own whatever it uses: no references. While too many are abandoned, and
// block still, no work is begun: a server that is stopped for hours is asked again and again.
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

}  // namespace sotto
