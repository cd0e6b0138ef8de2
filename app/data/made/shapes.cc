#include "app/data/images/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "app/data/made/generated.h"

namespace sotto {
namespace {

enum Shape : std::uint8_t { disc, square, triangle, ring, cross };

// Signed distance from (x, y) to the edge of a shape of radius 1: about 1 in the middle, negative outside.
float inside(Shape shape, float x, float y) {
  const float a = std::abs(x);
  const float b = std::abs(y);
  switch (shape) {
    case disc: return 1 - std::sqrt(x * x + y * y);
    case square: return 0.8F - std::max(a, b);
    case triangle: return std::min(0.6F + y, 0.6F - 0.5F * y - 0.866F * a);
    case ring: return 0.28F - std::abs(std::sqrt(x * x + y * y) - 0.72F);
    case cross: return std::min(1 - std::max(a, b), 0.3F - std::min(a, b));
  }
  return 0;
}

using Colour = std::array<float, 3>;

Colour any_colour(Philox& random, float low, float high) {
  return {between(random, low, high), between(random, low, high), between(random, low, high)};
}

// Waves across the picture. The value at a point is the phase there, from 0 to 1.
struct Grating {
  float x, y, phase;
  Grating(Philox& random, float period) : phase(between(random, 0, 1)) {
    const float angle = between(random, 0, 1);
    x = sine(angle) / period;
    y = sine(angle + 0.25F) / period;
  }
  float at(float px, float py) const { return 0.5F + 0.5F * sine(px * x + py * y + phase); }
};

}  // namespace

std::uint8_t draw_made_cifar(Philox& random, std::span<std::uint8_t> pixels) {
  const auto side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(pixels.size() / 3))));
  const float unit = static_cast<float>(side) / 32;  // lengths below are for CIFAR's size
  const auto label = static_cast<std::uint8_t>(random.below(10));
  const auto shape = static_cast<Shape>(label / 2);
  const Grating fill(random, unit * (label % 2 == 0 ? between(random, 2.6F, 3.6F) : between(random, 5.5F, 8.0F)));
  const Grating ground(random, unit * between(random, 14, 40));
  const Colour bright = any_colour(random, 0.35F, 1.0F);
  const Colour dark = any_colour(random, 0.0F, 0.5F);
  const Colour near_ground = any_colour(random, 0.1F, 0.9F);
  const Colour far_ground = any_colour(random, 0.1F, 0.9F);
  const float radius = unit * between(random, 8.0F, 13.0F);
  const float middle_x = unit * (16 + 2.0F * bell(random));
  const float middle_y = unit * (16 + 2.0F * bell(random));
  const float turn = 0.06F * bell(random);
  const float c = sine(turn + 0.25F) / radius;
  const float s = sine(turn) / radius;
  const float noise = between(random, 0.02F, 0.14F);
  const ElementStream grain{random.next(), random.next()};
  const std::size_t plane = pixels.size() / 3;

  for (int i = 0; i < side; ++i) {
    for (int j = 0; j < side; ++j) {
      const float x = static_cast<float>(j) + 0.5F;
      const float y = static_cast<float>(i) + 0.5F;
      const float dx = x - middle_x;
      const float dy = y - middle_y;
      const float cover = std::clamp(inside(shape, c * dx - s * dy, s * dx + c * dy) * radius + 0.5F, 0.0F, 1.0F);
      const float wave = fill.at(x, y);
      const float slope = ground.at(x, y);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const float shown = dark[channel] + wave * (bright[channel] - dark[channel]);
        const float behind = near_ground[channel] + slope * (far_ground[channel] - near_ground[channel]);
        const auto place = channel * plane + static_cast<std::size_t>(i * side + j);
        const float value =
            behind + cover * (shown - behind) + noise * (2 * grain.uniform(static_cast<std::uint32_t>(place)) - 1);
        pixels[place] = to_byte(value);
      }
    }
  }
  return label;
}

std::unique_ptr<Dataset> open_made_cifar(const DataOptions& options, Split split) {
  return open_generated(options, split, made_cifar_form);
}

std::unique_ptr<Dataset> open_made_images(const DataOptions& options, Split split) {
  const std::int64_t side = options.image_size.value_or(224);
  return open_generated(options, split, {{3, side, side}, imagenet_normalisation, draw_made_cifar, 2'000, 400});
}

}  // namespace sotto
