#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace sotto {

// Memory that is reused from call to call. It grows to the largest requested size and is not initialised, so a generous
// bound costs only address space until it is written to.
template <class T>
class Scratch {
 public:
  // Returns room for `count` elements; growing discards the content.
  std::span<T> room(std::size_t count) {
    if (count > size_) {
      data_ = std::make_unique_for_overwrite<T[]>(count);
      size_ = count;
    }
    return {data_.get(), count};
  }
  const T* data() const { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0;
};

}  // namespace sotto
