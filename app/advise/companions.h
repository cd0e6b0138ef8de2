#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "app/train/options/choices.h"

namespace sotto {

// Other ranks of this machine, which compute as long as this lives: ranks that share a machine also share its memory
// and caches, and take longer than one alone.
class Companions {
 public:
  // ConfigError as for a run.
  Companions(const Choices& choices, std::size_t count);
  ~Companions();
  Companions(const Companions&) = delete;
  Companions& operator=(const Companions&) = delete;

 private:
  std::vector<std::unique_ptr<Task>> tasks_;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sotto
