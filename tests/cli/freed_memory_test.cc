#include "app/cli/train/job.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <memory>

namespace sotto {
namespace {

// Pages that the system had to map and zero until now.
long faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Returns the faults of taking 64 MiB, 16,384 pages, and giving them back.
long use_a_large_block() {
  constexpr std::size_t bytes = 64 << 20, page = 4096;
  const long before = faults();
  const auto block = std::make_unique_for_overwrite<volatile std::byte[]>(bytes);
  for (std::size_t i = 0; i < bytes; i += page) block[i] = std::byte{1};
  return faults() - before;
}

TEST(FreedMemory, IsNotMappedAgain) {
#if !defined(__GLIBC__) || SOTTO_SANITIZED
  GTEST_SKIP() << "sanitizers and other C libraries have other allocators";
#endif
  keep_freed_memory();
  use_a_large_block();
  EXPECT_LT(use_a_large_block(), 1000);
}

}  // namespace
}  // namespace sotto
