#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sotto {

// A half-open run of elements [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// One named tensor inside a flat vector. `offset` counts elements.
struct Segment {
  std::string name;
  std::size_t offset = 0;
  std::vector<std::int64_t> shape;

  std::size_t numel() const;
  Range range() const { return {offset, offset + numel()}; }
  bool operator==(const Segment&) const = default;
};

// The list of segments of a flat float vector, in ascending order, without overlap. Elements between segments are
// padding: always zero, in every vector of this layout.
class Layout {
 public:
  static constexpr std::size_t alignment = 16;  // floats: segments of our own vectors start at multiples of 64 bytes

  Layout() = default;
  // For a vector that is borrowed as it is: offsets are the caller's, `size` its length in elements.
  Layout(std::vector<Segment> segments, std::size_t size);

  // Appends a segment at the next aligned offset.
  void append(std::string name, std::vector<std::int64_t> shape);

  std::span<const Segment> segments() const { return segments_; }
  std::size_t size() const { return size_; }  // elements, padding included
  std::size_t numel() const;                  // elements, padding excluded
  std::uint64_t hash() const;                 // of names, offsets, shapes and size; the same on every machine

  // Segments [first, last) as a layout of their own, offsets relative to the first; it ends where segment `last`
  // begins.
  Layout slice(std::size_t first, std::size_t last) const;
  // The stretch of the vector that slice(first, last) describes.
  Range slice_range(std::size_t first, std::size_t last) const;
  // Sets all padding of a vector of this layout to zero.
  void clear_padding(std::span<float> values) const;
  // The name of the segment that holds `element`, or "padding".
  const std::string& name_at(std::size_t element) const;

  bool operator==(const Layout&) const = default;

 private:
  std::vector<Segment> segments_;
  std::size_t size_ = 0;
};

// A run of whole segments, or a stretch of one that is too long for that, sent as one message.
struct BucketPlan {
  std::size_t first = 0, last = 0;  // segments [first, last), or the one that it is a stretch of
  Range range;                      // of the flat vector
  Layout layout;                    // offsets relative to range.begin
};

// The most elements of a bucket: a message has less than 2^32 bytes, and what a codec makes of a vector, and the lists
// of what it chose, may be longer than that.
inline constexpr std::size_t most_elements = std::size_t{1} << 29;

// Cuts a layout into buckets of at most `bytes` (a larger segment has a bucket of its own), from the last segment to
// the first: bucket 0 is the one that backward finishes first. None is longer than `most` elements: a longer segment is
// cut into several buckets, as tensors of fewer rows, called "name[begin:end]" by their rows; where a row itself is
// longer, and in one dimension, by their elements.
std::vector<BucketPlan> plan_buckets(const Layout& layout, std::size_t bytes, std::size_t most = most_elements);

// The same with a bucket for each module: segments that follow each other, and whose names differ in their last part
// alone, as conv1.weight and conv1.bias.
std::vector<BucketPlan> plan_layers(const Layout& layout, std::size_t most = most_elements);

}  // namespace sotto
