#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "app/data/images/dataset.h"
#include "app/data/made/digit_strokes.h"
#include "app/data/made/generated.h"

namespace sotto {
namespace {

struct Point {
  float x, y;
};

// Draws anti-aliased lines of a round pen on a small grey canvas, from 0 (paper) to 1 (ink). Pixel (i, j) is the square
// around (j + .5, i + .5).
class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width), height_(height), ink_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}
  void clear() { std::fill(ink_.begin(), ink_.end(), 0.0F); }
  // A line whose radius changes from `from_radius` to `to_radius`; `soft` is the width of its blurred edge. All lengths
  // are in pixels. Where lines overlap, the darker one counts.
  void line(Point from, float from_radius, Point to, float to_radius, float soft) {
    const float reach = std::max(from_radius, to_radius) + 0.5F * soft;
    // Clamped as floats, so that a point far outside cannot overflow an int.
    const auto cell = [](float value, int limit) {
      return static_cast<int>(std::clamp(std::floor(value), 0.0F, static_cast<float>(limit)));
    };
    const int left = cell(std::min(from.x, to.x) - reach - 0.5F, width_);
    const int right = cell(std::max(from.x, to.x) + reach + 0.5F, width_);
    const int top = cell(std::min(from.y, to.y) - reach - 0.5F, height_);
    const int bottom = cell(std::max(from.y, to.y) + reach + 0.5F, height_);

    const float dx = to.x - from.x;
    const float dy = to.y - from.y;
    const float length2 = dx * dx + dy * dy;
    const float inverse = length2 > 0 ? 1.0F / length2 : 0.0F;
    for (int i = top; i < bottom; ++i) {
      float* const row = ink_.data() + static_cast<std::ptrdiff_t>(i) * width_;
      for (int j = left; j < right; ++j) {
        const float px = static_cast<float>(j) + 0.5F - from.x;
        const float py = static_cast<float>(i) + 0.5F - from.y;
        const float t = std::clamp((px * dx + py * dy) * inverse, 0.0F, 1.0F);  // nearest point: 0 is `from`, 1 is `to`
        const float ex = px - t * dx;
        const float ey = py - t * dy;
        const float radius = from_radius + t * (to_radius - from_radius);
        const float c = std::clamp((radius - std::sqrt(ex * ex + ey * ey)) / soft + 0.5F, 0.0F, 1.0F);
        float& ink = row[j];
        ink = std::max(ink, c * c * (3 - 2 * c));
      }
    }
  }
  std::span<const float> ink() const { return ink_; }

 private:
  int width_, height_;
  std::vector<float> ink_;
};

constexpr int picture_side = 28;
constexpr int pieces = 5;  // straight pieces between two knots

// How one writer writes one digit. Lengths are in units of the digit's height before fit(), in pixels after it.
struct Hand {
  float jitter;          // of each knot
  float waist, lean;     // moves the middle up or down, and the lower half to a side
  float wave_x, wave_y;  // amplitudes of two slow waves that bend the paper
  std::array<float, 4> phase;
  float turn, slant, width;  // rotation in turns, shear, width to height
  float size, shift_x, shift_y;
  float radius, pressure, pressure_phase, soft, ink;

  explicit Hand(Philox& random)
      : jitter(0.029F),
        waist(0.16F * bell(random)),
        lean(0.10F * bell(random)),
        wave_x(0.033F * bell(random)),
        wave_y(0.033F * bell(random)),
        turn(0.024F * bell(random)),
        slant(0.08F + 0.20F * bell(random)),
        width(1.0F + 0.17F * bell(random)),
        size(between(random, 0.84F, 1.04F)),
        shift_x(0.75F * bell(random)),
        shift_y(0.75F * bell(random)),
        radius(between(random, 0.7F, 1.45F)),
        pressure(between(random, 0.0F, 0.25F)),
        pressure_phase(between(random, 0, 1)),
        soft(between(random, 0.9F, 1.7F)),
        ink(between(random, 0.80F, 1.0F)) {
    for (float& p : phase) p = between(random, 0, 1);
  }

  Point place(Point p) const {
    const float y = p.y + waist * p.y * (1 - p.y);
    const float x = (p.x - 0.5F) * width + lean * (1 - 2 * y) * y + slant * (0.5F - y);
    const float bent_x = x + wave_x * sine(1.1F * y + phase[0]) + 0.5F * wave_y * sine(1.7F * y + phase[1]);
    const float bent_y = y - 0.5F + wave_y * sine(1.3F * x + phase[2]) + 0.5F * wave_x * sine(1.9F * x + phase[3]);
    const float c = sine(turn + 0.25F);
    const float s = sine(turn);
    return {c * bent_x - s * bent_y, s * bent_x + c * bent_y};
  }
};

struct Sample {
  Point at;
  float radius;
  bool pen_down;  // whether a line leads here from the previous sample
};

// A Catmull-Rom curve through the knots. At corners and ends it has the direction of the chord.
void trace(std::span<const Knot> stroke, const Hand& hand, Philox& random, std::vector<Sample>& out) {
  std::array<Point, max_knots> p;
  const std::size_t n = stroke.size();
  for (std::size_t i = 0; i < n; ++i) {
    p[i].x = stroke[i].x + hand.jitter * bell(random);
    p[i].y = stroke[i].y + hand.jitter * bell(random);
  }
  const auto sharp = [&](std::size_t i) { return i == 0 || i + 1 == n || stroke[i].corner; };
  const auto along = [&](std::size_t a, std::size_t b, float scale) {
    return Point{scale * (p[b].x - p[a].x), scale * (p[b].y - p[a].y)};
  };
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const Point leave = sharp(i) ? along(i, i + 1, 1) : along(i - 1, i + 1, 0.5F);
    const Point arrive = sharp(i + 1) ? along(i, i + 1, 1) : along(i, i + 2, 0.5F);
    for (int k = i == 0 ? 0 : 1; k <= pieces; ++k) {
      const float t = static_cast<float>(k) / pieces;
      const float u = 1 - t;
      const float from = (1 + 2 * t) * u * u;
      const float to = t * t * (3 - 2 * t);
      const float out_weight = t * u * u;
      const float in_weight = -t * t * u;
      const Point q{from * p[i].x + to * p[i + 1].x + out_weight * leave.x + in_weight * arrive.x,
                    from * p[i].y + to * p[i + 1].y + out_weight * leave.y + in_weight * arrive.y};
      const float way = (static_cast<float>(i) + t) / static_cast<float>(n);
      const float radius = hand.radius * (1 + hand.pressure * sine(way + hand.pressure_phase));
      out.push_back({hand.place(q), radius, i + static_cast<std::size_t>(k) > 0});
    }
  }
}

// Scales the digit to the box of 20x20 pixels, pen included, and puts it in the middle.
void fit(const Hand& hand, std::vector<Sample>& samples) {
  constexpr float far = std::numeric_limits<float>::max();
  Point low{far, far};
  Point high{-far, -far};
  for (const Sample& s : samples) {
    low = {std::min(low.x, s.at.x), std::min(low.y, s.at.y)};
    high = {std::max(high.x, s.at.x), std::max(high.y, s.at.y)};
  }
  const float extent = std::max({high.x - low.x, high.y - low.y, 0.1F});
  const float scale = hand.size * (20 - 2 * hand.radius) / extent;
  for (Sample& s : samples) {
    s.at.x = (s.at.x - 0.5F * (low.x + high.x)) * scale + 0.5F * picture_side + hand.shift_x;
    s.at.y = (s.at.y - 0.5F * (low.y + high.y)) * scale + 0.5F * picture_side + hand.shift_y;
  }
}

const Way& choose_way(std::span<const Way> ways, Philox& random) {
  float total = 0;
  for (const Way& way : ways) total += way.weight;
  float left = between(random, 0, total);
  for (const Way& way : ways) {
    if (left < way.weight) return way;
    left -= way.weight;
  }
  return ways.back();
}

}  // namespace

// How hard the digits are: accuracy on the 10,000 test examples of seed 1 after training on 60,000 in batches of 256
// with momentum .9. It was measured with PyTorch; `sotto train` repeats it (logreg at a rate of .01, lenet at .05):
//   a linear model    SGD, 20 epochs: 91.1 %       L-BFGS: 91.1 %
//   LeNet             150 steps: 98.3 to 98.7 %    1 epoch: 98.7 to 98.9 %    3 epochs: 99.1 to 99.2 %
// LeNet converged from all of 20 initialisations. With more ink and jitter (radius up to 1.75, jitter .032, waves .036)
// it diverged from 2 of 10.
std::uint8_t draw_digit(Philox& random, std::span<std::uint8_t> pixels) {
  thread_local Canvas canvas(picture_side, picture_side);
  thread_local std::vector<Sample> samples;
  canvas.clear();
  samples.clear();

  const auto digit = static_cast<std::uint8_t>(random.below(10));
  const Way& way = choose_way(ways_of_writing(digit), random);
  const Hand hand(random);
  for (const auto& stroke : way.strokes) trace(stroke, hand, random, samples);
  fit(hand, samples);
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const Sample& a = samples[i - 1];
    const Sample& b = samples[i];
    if (b.pen_down) canvas.line(a.at, a.radius, b.at, b.radius, hand.soft);
  }

  // Ink is uneven, paper is clean, as in scans.
  const ElementStream grain{random.next(), random.next()};
  const auto ink = canvas.ink();
  for (std::uint32_t i = 0; i < pixels.size(); ++i) {
    const float value = ink[i] * hand.ink * (1 + 0.16F * (grain.uniform(i) - 0.5F));
    pixels[i] = to_byte(value);
  }
  return digit;
}

std::unique_ptr<Dataset> open_digits(const DataOptions& options, Split split) {
  return open_generated(options, split, digit_form);
}

}  // namespace sotto
