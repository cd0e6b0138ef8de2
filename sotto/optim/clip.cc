#include "sotto/optim/clip.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

// As torch.nn.utils.clip_grad_norm_ does.
void clip_norm(std::span<float> gradient, double most) {
  const double factor = most / (std::sqrt(kernels::sum_squares(gradient)) + 1e-6);
  if (!(factor >= 1)) kernels::scale(static_cast<float>(factor), gradient);  // not a number: all elements become that
}

// As torch.nn.utils.clip_grad_value_ does with finite values.
void clip_value(std::span<float> gradient, double most) {
  const auto bound = static_cast<float>(most);
  for (float& value : gradient) {
    if (std::isfinite(value)) value = std::clamp(value, -bound, bound);
  }
}

AnyOptions clip_options() { return ClipOptions{}; }

constexpr std::array clip_entries{
    ClipEntry{"norm", "scales a gradient down to that norm", true, clip_options, clip_norm},
    ClipEntry{"value", "cuts each element of a gradient to that magnitude", false, clip_options, clip_value},
};
constexpr Table<ClipEntry> clip_lines("way to clip", clip_entries);

}  // namespace

const Table<ClipEntry>& clip_table() { return clip_lines; }

bool clips(const ClipSpec& spec, std::string_view when) { return spec && spec.options.as<ClipOptions>().when == when; }

void clip(const ClipSpec& spec, std::span<float> gradient) {
  if (spec) spec.entry->clip(gradient, spec.options.as<ClipOptions>().most);
}

Clipped::Clipped(std::unique_ptr<Optimiser> inner, ClipSpec clip, std::size_t parameters)
    : Wrapped(std::move(inner)), clip_(std::move(clip)), size_(parameters) {}

void Clipped::take_shares(double share) {
  offers_clipped_ = share < 1;
  Wrapped::take_shares(share);
}

std::span<float> Clipped::offer(std::span<float> gradient, std::size_t begin) {
  if (offers_clipped_) clip(clip_, gradient);
  return Wrapped::offer(gradient, begin);
}

void Clipped::apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) {
  if (clip_.entry->whole && mean.size() != size_) {
    throw std::logic_error("Clipped: the norm of a stretch is not the norm of the gradient");
  }
  if (!offers_clipped_) clip(clip_, mean);
  Wrapped::apply(parameters, mean, begin, lr);
}

}  // namespace sotto
