#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

  std::size_t numel() const;  // std::logic_error if a dimension is negative, or there are more than 2^60 elements
  Range range() const { return {offset, offset + numel()}; }
  bool operator==(const Segment&) const = default;
};

// The list of segments of a flat float vector, in ascending order, without overlap. Elements between segments are
// padding, which is zero in every vector of this layout.
class Layout {
 public:
  static constexpr std::size_t alignment = 16;  // floats: segments of our own vectors start at multiples of 64 bytes

  Layout() = default;
  // Describes a borrowed vector: the caller chooses the offsets; `size` is the length of the vector in elements.
  Layout(std::vector<Segment> segments, std::size_t size);

  // Appends a segment at the next aligned offset. std::logic_error as Segment::numel().
  void append(std::string name, std::vector<std::int64_t> shape);

  std::span<const Segment> segments() const { return segments_; }
  std::size_t size() const { return size_; }  // elements, padding included
  std::size_t numel() const;                  // elements, padding excluded
  std::uint64_t hash() const;                 // of names, offsets, shapes and size; the same on every machine

  // Segments [first, last) as a separate layout, with offsets relative to segment `first`. It ends where segment `last`
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

// A bucket, which is sent as one message: a run of whole segments, or a stretch of one segment that is too long for a
// message.
struct BucketPlan {
  std::size_t first = 0, last = 0;  // segments [first, last), or the segment that is cut
  Range range;                      // of the flat vector
  Layout layout;                    // offsets relative to range.begin
};

// The most elements of a bucket. A message has less than 2^32 bytes, and an encoded vector with its index lists may be
// longer than the vector itself.
inline constexpr std::size_t most_elements = std::size_t{1} << 29;

// Cuts a layout into buckets of at most `bytes` (a larger segment gets a separate bucket), from the last segment to the
// first: backward finishes bucket 0 first. No bucket is longer than `most` elements. A longer segment is cut between
// rows into several buckets, named "name[begin:end]" with the row numbers; if it has one dimension, or a row is longer
// than `most`, it is cut between elements and named with the element numbers. REQUIRES most >= 1, and fewer than 65536
// * most elements, since a message has 16 bits for the number of its bucket.
std::vector<BucketPlan> plan_buckets(const Layout& layout, std::size_t bytes, std::size_t most = most_elements);

// The same with one bucket for each module. Consecutive segments belong to one module if their names differ only in the
// last part, such as conv1.weight and conv1.bias.
std::vector<BucketPlan> plan_layers(const Layout& layout, std::size_t most = most_elements);

// A model makes these calls while it computes a gradient, on the computing thread. `segment` is an index into the
// segments of the model's layout. Either callback may be empty.
struct SegmentCalls {
  std::function<void(std::size_t segment)> needed = {};  // forward is about to read the parameters of this segment
  std::function<void(std::size_t segment)> ready = {};   // the gradient of this segment is finished
};

}  // namespace sotto
