#pragma once

namespace sotto::test {

// While it lives, this process can start at most `more` further threads, as if the limit of processes were reached
// then.
class ThreadLimit {
 public:
  explicit ThreadLimit(int more);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  static bool works();  // false under sanitizers, which have their own pthread_create
};

}  // namespace sotto::test
