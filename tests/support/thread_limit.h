#pragma once

namespace sotto::test {

// While it lives this process can start so many more threads, and no others, as where the limit of processes is
// reached.
class ThreadLimit {
 public:
  explicit ThreadLimit(int more);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  static bool works();  // not under sanitizers, which start threads their own way
};

}  // namespace sotto::test
