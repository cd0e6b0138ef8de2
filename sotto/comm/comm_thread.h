#pragma once

#include <functional>
#include <memory>

namespace sotto {

// One thread that runs posted work in order: a rank's communication thread. After work that threw, later work is
// dropped, and the next wait() throws that exception, once.
class CommThread {
 public:
  CommThread();
  ~CommThread();  // waits for posted work
  // Posting allocates nothing once the queue has grown: the callable must fit std::function's small buffer (two
  // pointers).
  void post(std::function<void()> work);
  // Until all posted work is done.
  void wait();
  // Until enough(), which is asked again after each piece of work, or as wait(). Throws as wait() does.
  void wait(const std::function<bool()>& enough);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto
