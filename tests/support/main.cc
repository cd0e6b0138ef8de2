// The main of all test programs. With --no-threads a test that starts a thread fails. The short run of the thread
// sanitizer takes only the tests that are listed under THREADS in CMake; this makes sure that the list is complete.
// With --serve the program becomes a process for each test that it is asked for (tools/run_tests.py).
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "thread_limit.h"

#if !SOTTO_SANITIZED  // sanitizers replace pthread_create themselves
#define COUNTS_THREADS
#endif

namespace {

std::atomic<int> started{0};
std::atomic<int> allowed{1 << 30};

class NoThreads final : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { before_ = started; }
  void OnTestEnd(const testing::TestInfo&) override {
    EXPECT_EQ(started - before_, 0) << "threads; list it under THREADS in the CMakeLists.txt beside it";
  }

 private:
  int before_ = 0;
};

}  // namespace

#ifdef COUNTS_THREADS
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) noexcept {
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (--allowed < 0) return EAGAIN;
  ++started;
  return create(thread, attributes, run, argument);
}
#endif

namespace sotto::test {

ThreadLimit::ThreadLimit(int more) { allowed = more; }
ThreadLimit::~ThreadLimit() { allowed = 1 << 30; }

bool ThreadLimit::works() {
#ifdef COUNTS_THREADS
  return true;
#else
  return false;
#endif
}

}  // namespace sotto::test

namespace {

// Two lines of stdin are the name of a test and the file for its output. Returns false in the process that is to run
// it; writes the status of each test.
bool serve() {
  std::string test, file;
  while (std::getline(std::cin, test) && std::getline(std::cin, file)) {
    const pid_t child = fork();
    if (child == 0) {
      const int out = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      const int in = open("/dev/null", O_RDONLY);
      if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) std::abort();
      close(in);
      close(out);
      GTEST_FLAG_SET(filter, test);
      return false;
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) std::abort();
    std::cout << (WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)) << std::endl;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto has = [&](std::string_view flag) {
    return std::any_of(argv, argv + argc, [&](const char* one) { return one == flag; });
  };
#ifdef COUNTS_THREADS
  if (has("--no-threads")) {
    testing::UnitTest::GetInstance()->listeners().Append(new NoThreads);  // takes ownership
  }
#endif
  if (has("--serve") && serve()) return 0;
  int status = RUN_ALL_TESTS();
  if (has("--serve") && testing::UnitTest::GetInstance()->test_to_run_count() != 1) status = 1;  // no such test
#ifdef COUNTS_THREADS  // a sanitizer looks for leaks at the end
  std::fflush(nullptr);
  std::quick_exit(status);  // without the destructors of LibTorch, which take a tenth of a second
#else
  return status;
#endif
}
