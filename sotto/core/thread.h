#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {

// A thread that runs work(arguments...). Where the system has none left to give, an Error that says what it was for.
// The caller has to survive that: whatever the thread was to wait for must not have begun.
template <class... Work>
std::thread start_thread(std::string_view purpose, Work&&... work) {
  try {
    return std::thread(std::forward<Work>(work)...);
  } catch (const std::system_error& error) {
    throw Error("no thread could be started for " + std::string(purpose) + " (" + error.what() +
                "): raise the limit of processes (`ulimit -u`, or pids of the container), or start fewer ranks here");
  }
}

}  // namespace sotto
