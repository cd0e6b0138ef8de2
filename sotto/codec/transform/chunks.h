#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct ChunkOptions {
  explicit ChunkOptions(std::int64_t size) : chunk(size) {}
  std::int64_t chunk;
  void visit(OptionVisitor& v) {
    v.option("chunk", chunk, "elements that are transformed together, a power of two", Bounds{1, 1U << 16});
  }
  // Describes an invalid option; empty if there is none.
  std::string problem() const {
    return std::has_single_bit(static_cast<std::uint64_t>(chunk)) ? "" : "chunk must be a power of two";
  }
};

// Cuts a piece of n elements into chunks of `chunk`, and the rest into ever smaller powers of two, so nothing is
// padded. Calls run(begin, size, count): `count` chunks of `size` start at `begin`.
template <class Run>
void for_chunks(std::size_t n, std::size_t chunk, Run run) {
  std::size_t begin = 0;
  for (std::size_t size = chunk; size > 0 && begin < n; size /= 2) {
    const std::size_t count = (n - begin) / size;
    if (count > 0) run(begin, size, count);
    begin += count * size;
  }
}

// The same chunks, at most `most` of them at a time.
template <class Run>
void for_batches(std::size_t n, std::size_t chunk, std::size_t most, Run run) {
  for_chunks(n, chunk, [&](std::size_t begin, std::size_t size, std::size_t count) {
    for (std::size_t done = 0; done < count; done += most) run(begin + done * size, size, std::min(most, count - done));
  });
}

// What transforms of chunks share: they are orthonormal, and parts are cut between chunks.
class ChunkTransform : public Transform {
 public:
  // Each atom is a coefficient, and each element has one.
  Atoms atoms(const Layout& /*layout*/, const Piece& piece) const override {
    return {.count = piece.range.size(), .first = piece.first, .chunk = chunk()};
  }
  TransformTraits traits() const final { return {.chunks = true, .linear = true, .additive = true}; }
  Contract contract(const Layout& /*layout*/) const final {
    return {.kind = Contract::Kind::rounding,
            .input = Contract::Input::model,
            .grain = Contract::Grain::block,
            .block = chunk()};
  }

 protected:
  explicit ChunkTransform(const ChunkOptions& options) : options_(options) {}
  std::size_t chunk() const { return static_cast<std::size_t>(options_.chunk); }

 private:
  ChunkOptions options_;
};

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

  // Returns the rows of atoms begin .. end - 1 if all of these atoms are selected. Otherwise returns nothing, and
  // leaves the rows for take(). REQUIRES that take() went up to `begin`.
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
