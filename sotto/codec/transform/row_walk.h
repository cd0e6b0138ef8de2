#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

// Walks once through the rows of selected atoms, in ascending order of their numbers.
class RowWalk {
 public:
  RowWalk(std::span<const std::uint32_t> selected, std::span<const float> rows, std::size_t width)
      : selected_(selected), rows_(rows), width_(width) {}

  // Calls put(atom, row) for the next atoms whose numbers are below `end`; returns false if there is none.
  template <class Put>
  bool take(std::size_t end, Put put) {
    const std::size_t before = next_;
    for (; next_ < selected_.size() && selected_[next_] < end; ++next_) {
      put(std::size_t{selected_[next_]}, rows_.data() + next_ * width_);
    }
    return next_ > before;
  }

  // Returns the rows of atoms begin .. end - 1 if all of them are selected; otherwise nothing, and takes none.
  // REQUIRES that take() went up to `begin`.
  std::span<const float> take_all(std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    if (count == 0 || selected_.size() - next_ < count || selected_[next_ + count - 1] != end - 1) return {};
    const auto rows = rows_.subspan(next_ * width_, count * width_);
    next_ += count;
    return rows;
  }

 private:
  std::span<const std::uint32_t> selected_;
  std::span<const float> rows_;
  std::size_t width_;
  std::size_t next_ = 0;
};

}  // namespace sotto
