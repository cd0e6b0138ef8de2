#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "sotto/comm/stop.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {

// Runs work that may block forever, for example a request to c10d's store, which has no time limit. Returns its result,
// or nothing if there is none by `until` or when `stop` says so. Rethrows what the work throws; Error if no thread is
// available.
//
// The work runs on a thread of its own, since a library's blocking call cannot be cancelled. Work that takes longer is
// abandoned together with its thread, so it must own whatever it uses: no references. A caller without a result should
// end its process or not ask that server again; one sleeping thread remains.
template <class Work>
auto bounded(Clock::time_point until, const Stop& stop, Work work) -> std::optional<decltype(work())> {
  constexpr std::chrono::milliseconds look_for_stop(20);
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto answer = task.get_future();
  start_thread("a request that may block", std::move(task)).detach();
  while (true) {
    const auto wake = stop ? std::min(until, Clock::now() + look_for_stop) : until;
    if (answer.wait_until(wake) == std::future_status::ready) return answer.get();
    if (Clock::now() >= until || (stop && stop() != 0)) return std::nullopt;
  }
}

}  // namespace sotto
