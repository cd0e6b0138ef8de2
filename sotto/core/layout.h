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

// A run of whole segments, sent as one message.
struct BucketPlan {
  std::size_t first = 0, last = 0;  // segments [first, last)
  Range range;                      // of the flat vector
  Layout layout;                    // offsets relative to range.begin
};

// Cuts a layout into buckets of at most `bytes` (a larger segment has a bucket of its own), from the last segment to
// the first: bucket 0 is the one that backward finishes first.
std::vector<BucketPlan> plan_buckets(const Layout& layout, std::size_t bytes);

// The same with a bucket for each module: segments that follow each other, and whose names differ in their last part
// alone, as conv1.weight and conv1.bias.
std::vector<BucketPlan> plan_layers(const Layout& layout);

}  // namespace sotto
