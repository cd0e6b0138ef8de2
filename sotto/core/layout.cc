#include "sotto/core/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"

namespace sotto {
namespace {

constexpr std::size_t longest = std::size_t{1} << 60;  // the byte count of a vector fits in 64 bits

}  // namespace

std::size_t Segment::numel() const {
  std::size_t n = 1;
  for (const std::int64_t d : shape) {
    const auto size = static_cast<std::size_t>(d);
    if (d < 0 || (d > 0 && n > longest / size)) {
      throw std::logic_error("Layout: segment " + name + " has a negative dimension, or more than 2^60 elements");
    }
    n *= size;
  }
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
  const std::size_t end = size_ + (segment.numel() + alignment - 1) / alignment * alignment;
  if (end > longest) throw std::logic_error("Layout: segment " + segment.name + " ends after element 2^60");
  size_ = end;
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

namespace {

// Appends the bucket of segments [first, last).
void add_run(const Layout& layout, std::size_t first, std::size_t last, std::vector<BucketPlan>& plans) {
  plans.push_back({first, last, layout.slice_range(first, last), layout.slice(first, last)});
}

// Appends a bucket for each stretch of segment `number`, the last stretch first. The padding after the segment belongs
// to its last stretch.
void add_stretches(const Layout& layout, std::size_t number, std::size_t most, std::vector<BucketPlan>& plans) {
  const Segment& segment = layout.segments()[number];
  const Range whole = layout.slice_range(number, number + 1);
  const std::size_t elements = segment.numel();
  const bool is_matrix = segment.shape.size() > 1;
  const std::size_t row = is_matrix ? elements / static_cast<std::size_t>(segment.shape[0]) : elements;
  const bool by_rows = is_matrix && row <= most;
  const std::size_t unit = by_rows ? row : 1;  // elements per number in the stretch's name
  std::size_t units = most / unit;
  if (units > Layout::alignment) units = units / Layout::alignment * Layout::alignment;
  // No stretch crosses a multiple of `line`. Without `by_rows` a stretch therefore lies in one row, so that it has a
  // shape.
  const std::size_t line = by_rows ? elements : row;
  std::vector<Range> stretches;
  for (std::size_t begin = 0; begin < elements; begin += line) {
    for (std::size_t at = begin; at < begin + line; at += units * unit) {
      stretches.push_back({at, std::min(at + units * unit, begin + line)});
    }
  }
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
    const auto size = static_cast<std::int64_t>(stretch->size() / unit);
    std::vector<std::int64_t> shape{size};
    if (by_rows) shape.insert(shape.end(), segment.shape.begin() + 1, segment.shape.end());
    if (is_matrix && !by_rows) shape.insert(shape.begin(), 1);
    std::string name =
        segment.name + "[" + std::to_string(stretch->begin / unit) + ":" + std::to_string(stretch->end / unit) + "]";
    const Range range{whole.begin + stretch->begin, stretch->end == elements ? whole.end : whole.begin + stretch->end};
    plans.push_back({number, number + 1, range, Layout({{std::move(name), 0, std::move(shape)}}, range.size())});
  }
}

// Puts segments [first, last) into one bucket as long as together(first, last) is true.
template <class Together>
std::vector<BucketPlan> plan_runs(const Layout& layout, std::size_t most, Together together) {
  if (most == 0) throw std::logic_error("plan_buckets: buckets of at least an element");
  if (layout.size() / most > std::numeric_limits<std::uint16_t>::max()) {
    throw std::logic_error("plan_buckets: more elements than 65536 buckets hold, which are as many as messages count");
  }
  std::vector<BucketPlan> plans;
  std::size_t last = layout.segments().size();
  while (last > 0) {
    std::size_t first = last - 1;
    if (layout.segments()[first].numel() > most) {
      add_stretches(layout, first, most, plans);
    } else {
      while (first > 0 && layout.slice_range(first - 1, last).size() <= most && together(first - 1, last)) --first;
      add_run(layout, first, last, plans);
    }
    last = first;
  }
  if (plans.size() > std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1) {
    throw ConfigError(fmt::format("{}: {} buckets are more than the 65536 that messages can count; make them larger",
                                  named("buckets"), plans.size()));
  }
  return plans;
}

}  // namespace

std::vector<BucketPlan> plan_buckets(const Layout& layout, std::size_t bytes, std::size_t most) {
  return plan_runs(layout, most, [&](std::size_t first, std::size_t last) {
    return layout.slice_range(first, last).size() * sizeof(float) <= bytes;
  });
}

std::vector<BucketPlan> plan_layers(const Layout& layout, std::size_t most) {
  const auto module = [&](std::size_t segment) {
    const std::string& name = layout.segments()[segment].name;
    const auto dot = name.rfind('.');
    return dot == std::string::npos ? name : name.substr(0, dot);
  };
  return plan_runs(layout, most,
                   [&](std::size_t first, std::size_t last) { return module(first) == module(last - 1); });
}

}  // namespace sotto
