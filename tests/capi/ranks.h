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
  SharedStore();
  sotto_store calls();
  int released() const { return words_.released; }
  void close() { words_.closed = true; }

 private:
  // They stay until the process ends, because a store may be released after everything else was freed.
  struct Words {
    Mutex mutex;
    std::map<std::string, std::string> values SOTTO_GUARDED_BY(mutex);
    std::atomic<int> released = 0;
    std::atomic<bool> closed = false;
  };
  Words& words_;
};

// Runs `work` for each rank on a thread of its own, with the group of all.
void run_groups(int ranks, const std::function<void(sotto_group* group, int rank)>& work);

}  // namespace sotto::test
