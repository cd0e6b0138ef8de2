#pragma once

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"  // options that a caller leaves out are 0

#include <atomic>
#include <functional>
#include <map>
#include <string>

#include "sotto/capi/sotto.h"
#include "sotto/core/thread.h"

namespace sotto::test {

// A store of one process, for ranks that are threads.
class SharedStore {
 public:
  sotto_store calls();
  int released() const { return released_; }
  void close() { closed_ = true; }

 private:
  Mutex mutex_;
  std::map<std::string, std::string> values_ SOTTO_GUARDED_BY(mutex_);
  std::atomic<int> released_ = 0;
  std::atomic<bool> closed_ = false;
};

// Runs `work` for each rank on a thread of its own, with the group of all.
void run_groups(int ranks, const std::function<void(sotto_group* group, int rank)>& work);

}  // namespace sotto::test
