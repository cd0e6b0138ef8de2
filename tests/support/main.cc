// The main of all test programs. With --no-threads a test that starts a thread fails. The short run of the thread
// sanitizer takes only the tests that are listed under THREADS in CMake; this makes sure that the list is complete.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
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

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
#ifdef COUNTS_THREADS
  if (argc > 1 && argv[1] == std::string_view("--no-threads")) {
    testing::UnitTest::GetInstance()->listeners().Append(new NoThreads);  // takes ownership
  }
#endif
  const int status = RUN_ALL_TESTS();
#ifdef COUNTS_THREADS  // a sanitizer looks for leaks at the end
  std::fflush(nullptr);
  std::quick_exit(status);  // without the destructors of LibTorch, which take a tenth of a second
#else
  return status;
#endif
}
