#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "sotto/comm/stop.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {

// The answer of work that may block for ever, such as a request to c10d's store, which waits for an answer without end.
// Nothing when there is no answer until then, or `stop` says so. Throws what the work throws, and Error when there is
// no thread to be had.
//
// The work runs on a thread of its own, since a library's blocking call cannot be called off from outside. Work that
// takes longer is left behind with its thread, so it must own whatever it uses: no references. Whoever gets no answer
// is about to end its process, or will not ask that server again; what stays is one sleeping thread.
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
