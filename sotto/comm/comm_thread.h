#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>

namespace sotto {

// A thread that runs posted work in order: a rank's communication thread. After an exception, later work is dropped,
// and the next wait() throws that exception, once.
class CommThread {
 public:
  CommThread();
  ~CommThread();  // waits for posted work
  // Posting allocates nothing once the queue has grown, if the callable fits std::function's small buffer (two
  // pointers).
  void post(std::function<void()> work);
  // Like post(), but measures how long the work waits for earlier work. For the exchange of a finished bucket.
  void post_measured(std::function<void()> work);
  struct Waits {
    double seconds = 0;  // sum
    std::size_t works = 0;
    double mean() const { return seconds / static_cast<double>(std::max<std::size_t>(1, works)); }
  };
  // The waits of measured work that began since the last call.
  Waits take_waits();
  // Waits until all posted work is done.
  void wait();
  // Waits until enough() returns true, which is checked after each piece of work, or until all work is done. Throws as
  // wait() does.
  void wait(const std::function<bool()>& enough);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto
