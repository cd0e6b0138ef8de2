#include "sotto/core/layout.h"

#include <algorithm>
#include <stdexcept>

#include "sotto/core/hash.h"

namespace sotto {

std::size_t Segment::numel() const {
  std::size_t n = 1;
  for (const std::int64_t d : shape) n *= static_cast<std::size_t>(d);
  return n;
}

Layout::Layout(std::vector<Segment> segments, std::size_t size) : segments_(std::move(segments)), size_(size) {
  std::size_t end = 0;
  for (const Segment& s : segments_) {
    if (s.offset < end) throw std::logic_error("Layout: segment " + s.name + " overlaps the one before it");
    end = s.range().end;
  }
  if (end > size_) throw std::logic_error("Layout: segments end after the vector");
}

void Layout::append(std::string name, std::vector<std::int64_t> shape) {
  Segment segment{std::move(name), size_, std::move(shape)};
  size_ += (segment.numel() + alignment - 1) / alignment * alignment;
  segments_.push_back(std::move(segment));
}

std::size_t Layout::numel() const {
  std::size_t n = 0;
  for (const Segment& s : segments_) n += s.numel();
  return n;
}

std::uint64_t Layout::hash() const {
  Hash hash;
  hash.add(std::uint64_t{size_});
  for (const Segment& s : segments_) {
    hash.add(s.name);
    hash.add(std::uint64_t{s.offset});
    hash.add(std::uint64_t{s.shape.size()});
    for (const std::int64_t d : s.shape) hash.add(static_cast<std::uint64_t>(d));
  }
  return hash.value();
}

Range Layout::slice_range(std::size_t first, std::size_t last) const {
  if (first >= last || last > segments_.size()) throw std::logic_error("Layout: empty or unknown slice");
  return {segments_[first].offset, last == segments_.size() ? size_ : segments_[last].offset};
}

Layout Layout::slice(std::size_t first, std::size_t last) const {
  const Range range = slice_range(first, last);
  std::vector<Segment> part(segments_.begin() + static_cast<std::ptrdiff_t>(first),
                            segments_.begin() + static_cast<std::ptrdiff_t>(last));
  for (Segment& s : part) s.offset -= range.begin;
  return {std::move(part), range.size()};
}

void Layout::clear_padding(std::span<float> values) const {
  std::size_t end = 0;
  for (const Segment& s : segments_) {
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(end), values.begin() + static_cast<std::ptrdiff_t>(s.offset),
              0.0F);
    end = s.range().end;
  }
  std::fill(values.begin() + static_cast<std::ptrdiff_t>(end), values.end(), 0.0F);
}

const std::string& Layout::name_at(std::size_t element) const {
  static const std::string padding = "padding";
  for (const Segment& s : segments_) {
    if (element >= s.offset && element < s.range().end) return s.name;
  }
  return padding;
}

std::vector<BucketPlan> plan_buckets(const Layout& layout, std::size_t bytes) {
  std::vector<BucketPlan> plans;
  std::size_t last = layout.segments().size();
  while (last > 0) {
    std::size_t first = last - 1;
    while (first > 0 && layout.slice_range(first - 1, last).size() * sizeof(float) <= bytes) --first;
    plans.push_back({first, last, layout.slice_range(first, last), layout.slice(first, last)});
    last = first;
  }
  return plans;
}

std::vector<BucketPlan> plan_layers(const Layout& layout) {
  const auto module = [&](std::size_t segment) {
    const std::string& name = layout.segments()[segment].name;
    const auto dot = name.rfind('.');
    return dot == std::string::npos ? name : name.substr(0, dot);
  };
  std::vector<BucketPlan> plans;
  std::size_t last = layout.segments().size();
  while (last > 0) {
    std::size_t first = last - 1;
    while (first > 0 && module(first - 1) == module(last - 1)) --first;
    plans.push_back({first, last, layout.slice_range(first, last), layout.slice(first, last)});
    last = first;
  }
  return plans;
}

}  // namespace sotto
