#pragma once

#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {

// Starts a thread that runs work(arguments...). Error, which says the purpose, when the system has no thread left. The
// caller must be able to unwind after that: it may not have begun anything that waits for the thread.
template <class... Work>
std::thread start_thread(std::string_view purpose, Work&&... work) {
  try {
    return std::thread(std::forward<Work>(work)...);
  } catch (const std::system_error& error) {
    throw Error("no thread could be started for " + std::string(purpose) + " (" + error.what() +
                "): raise the limit of processes (`ulimit -u`, or pids of the container), or start fewer ranks here");
  }
}

// Begins work on a new thread; where no thread is left, does it at once. The future's get() throws what the work threw,
// and its destructor waits for the work.
template <class Work>
std::future<void> begin_work(const Work& work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    auto ended = std::async(std::launch::deferred, work);
    ended.wait();
    return ended;
  }
}

}  // namespace sotto
