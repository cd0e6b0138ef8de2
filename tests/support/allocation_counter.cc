#include "tests/support/allocation_counter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> count{0}, bytes{0}, peak{0};

void* counted(std::size_t size, std::size_t alignment) {
  count.fetch_add(1, std::memory_order_relaxed);
  // aligned_alloc needs a size that is a multiple of the alignment.
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(size > 0 ? size : 1)
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = bytes.fetch_add(malloc_usable_size(memory)) + malloc_usable_size(memory);
  for (std::size_t before = peak; before < now && !peak.compare_exchange_weak(before, now);) {
  }
  return memory;
}

void release(void* memory) {
  bytes.fetch_sub(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

namespace sotto::testing {
std::size_t allocation_count() { return count.load(std::memory_order_relaxed); }
std::size_t allocated_bytes() { return bytes; }
std::size_t peak_allocated_bytes() { return peak; }
}  // namespace sotto::testing

// The array and nothrow forms of operator new in the standard library call these.
void* operator new(std::size_t size) { return counted(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
