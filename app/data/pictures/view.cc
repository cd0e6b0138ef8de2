#include "app/data/pictures/view.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace sotto {
namespace {

std::size_t nearest(double value) { return static_cast<std::size_t>(std::floor(value + 0.5)); }

// Half of `pixels`, rounded as Python's round() does: between two numbers, to the even one.
std::size_t half_of(std::size_t pixels) { return pixels / 2 + (pixels % 4 == 3 ? 1 : 0); }

// e^x for small x by its series: libm's last bits differ between machines.
double exponential(double x) {
  double term = 1, sum = 1;
  for (int k = 1; k < 16; ++k) {
    term *= x / k;
    sum += term;
  }
  return sum;
}

Stretch whole(std::size_t begin, std::size_t pixels, std::size_t side) { return {begin, begin + pixels, side, 0}; }

// The same stretch, with pixels counted from the other end of a picture of this size. Its outputs are in the opposite
// order.
Stretch turned(const Stretch& stretch, std::size_t size, std::size_t side) {
  return {size - stretch.end, size - stretch.begin, stretch.outputs, stretch.outputs - stretch.first - side};
}

// How a stored picture with an orientation lies in the upright one. If `transposed`, its columns are the rows of the
// upright one.
struct Turn {
  bool transposed, across_reversed, down_reversed;  // in the directions of the stored picture
};
Turn turn_of(int orientation) {
  const auto is_one_of = [&](std::initializer_list<int> some) { return std::ranges::count(some, orientation) > 0; };
  return {orientation >= 5, is_one_of({2, 3, 7, 8}), is_one_of({3, 4, 6, 7})};
}

}  // namespace

View middle_view(std::size_t width, std::size_t height, std::size_t side) {
  const std::size_t shorter = side * 256 / 224;
  const std::size_t longer = shorter * std::max(width, height) / std::min(width, height);
  const auto stretch = [&](std::size_t pixels, bool is_shorter) {
    const std::size_t outputs = is_shorter ? shorter : longer;
    return Stretch{0, pixels, outputs, half_of(outputs - side)};
  };
  return {side, stretch(width, width <= height), stretch(height, height <= width)};
}

View random_view(std::size_t width, std::size_t height, std::size_t side, Philox& random) {
  constexpr double log_ratio = 0.28768207245178092744;  // of 4/3
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  const auto mirrored = [&](View view) {
    view.mirrored = random.below(2) == 1;
    return view;
  };
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = w * h * (0.08 + 0.92 * random.uniform());
    const double ratio = exponential((2 * random.uniform() - 1) * log_ratio);
    const std::size_t part_width = nearest(std::sqrt(area * ratio)), part_height = nearest(std::sqrt(area / ratio));
    if (part_width == 0 || part_width > width || part_height == 0 || part_height > height) continue;
    const std::size_t top = random.below(static_cast<std::uint32_t>(height - part_height + 1));
    const std::size_t left = random.below(static_cast<std::uint32_t>(width - part_width + 1));
    return mirrored({side, whole(left, part_width, side), whole(top, part_height, side)});
  }
  // The picture is long and narrow: its middle.
  const std::size_t part_width = std::min(width, nearest(h * 4 / 3)),
                    part_height = std::min(height, nearest(w * 4 / 3));
  return mirrored(
      {side, whole((width - part_width) / 2, part_width, side), whole((height - part_height) / 2, part_height, side)});
}

// As precompute_coeffs() and normalize_coeffs_8bpc() of Pillow's Resample.c, with a triangle as filter.
void ViewReader::resize(const Stretch& stretch, std::size_t side, std::size_t reduction, Axis& axis) {
  axis.taps.clear();
  axis.weights.clear();
  const auto last = static_cast<std::int64_t>(Picture::reduced(stretch.end, reduction));
  const auto origin = static_cast<std::int64_t>(stretch.begin / reduction);  // pixels before it do not count
  const double begin =
      static_cast<double>(stretch.begin) / static_cast<double>(reduction) - static_cast<double>(origin);
  const double scale = static_cast<double>(stretch.end - stretch.begin) / static_cast<double>(reduction) /
                       static_cast<double>(stretch.outputs);
  const double reach = std::max(scale, 1.0);
  for (std::size_t i = 0; i < side; ++i) {
    const double center = begin + (static_cast<double>(stretch.first + i) + 0.5) * scale;
    const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - reach + 0.5));
    const auto high = std::min(last - origin, static_cast<std::int64_t>(center + reach + 0.5));
    shares_.clear();
    double sum = 0;
    for (std::int64_t x = low; x < high; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) * (1.0 / reach);
      shares_.push_back(std::max(0.0, 1.0 - std::abs(distance)));
      sum += shares_.back();
    }
    axis.taps.push_back(
        {static_cast<std::uint32_t>(origin + low), static_cast<std::uint32_t>(shares_.size()), axis.weights.size()});
    for (const double share : shares_) {
      axis.weights.push_back(static_cast<std::int32_t>(0.5 + share / sum * (1 << kernels::weight_bits)));
    }
  }
  axis.begin = axis.taps.front().first;
  axis.end = axis.taps.back().first + axis.taps.back().count;
}

void ViewReader::blend(std::size_t side) {
  for (kernels::Taps& taps : across_.taps) taps.first -= static_cast<std::uint32_t>(pixels_.part.left);
  const std::size_t row_bytes = 4 * pixels_.part.width, narrow_bytes = 4 * side;
  narrowed_.resize((down_.end - down_.begin) * narrow_bytes);
  for (std::size_t y = down_.begin; y < down_.end; ++y) {
    const auto row = std::span(pixels_.bytes).subspan((y - pixels_.part.top) * row_bytes, row_bytes);
    const auto to = std::span(narrowed_).subspan((y - down_.begin) * narrow_bytes, narrow_bytes);
    kernels::blend_pixels(row, across_.taps, across_.weights, to);
  }
  stored_.resize(side * narrow_bytes);
  for (std::size_t y = 0; y < side; ++y) {
    const kernels::Taps& taps = down_.taps[y];
    kernels::blend_rows(std::span(narrowed_).subspan((taps.first - down_.begin) * narrow_bytes), narrow_bytes,
                        std::span(down_.weights).subspan(taps.weight, taps.count),
                        std::span(stored_).subspan(y * narrow_bytes, narrow_bytes));
  }
}

std::span<const std::uint8_t> ViewReader::read(Picture& picture, const View& view) {
  const Turn turn = turn_of(picture.orientation());
  const std::size_t side = view.side;
  Stretch across = turn.transposed ? view.down : view.across;
  Stretch down = turn.transposed ? view.across : view.down;
  if (turn.across_reversed) across = turned(across, picture.width(), side);
  if (turn.down_reversed) down = turned(down, picture.height(), side);
  std::size_t reduction = picture.reduces() ? 8 : 1;
  while (reduction > 1 &&
         std::min((across.end - across.begin) / across.outputs, (down.end - down.begin) / down.outputs) < reduction) {
    reduction /= 2;
  }
  resize(across, side, reduction, across_);
  resize(down, side, reduction, down_);
  picture.decode({across_.begin, down_.begin, across_.end - across_.begin, down_.end - down_.begin}, reduction,
                 pixels_);
  blend(side);
  keep_small(pixels_.bytes);
  keep_small(narrowed_);
  if (picture.orientation() == 1 && !view.mirrored) return stored_;
  upright_.resize(stored_.size());
  for (std::size_t y = 0; y < side; ++y) {
    for (std::size_t x = 0; x < side; ++x) {
      const std::size_t seen_x = view.mirrored ? side - 1 - x : x;
      std::size_t from_x = turn.transposed ? y : seen_x, from_y = turn.transposed ? seen_x : y;
      if (turn.across_reversed) from_x = side - 1 - from_x;
      if (turn.down_reversed) from_y = side - 1 - from_y;
      std::memcpy(&upright_[4 * (y * side + x)], &stored_[4 * (from_y * side + from_x)], 4);
    }
  }
  return upright_;
}

}  // namespace sotto
