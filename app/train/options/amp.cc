#include "app/train/options/amp.h"

#include <fmt/format.h>

#include <array>

#include "sotto/optim/loss_scale.h"

namespace sotto {
namespace {

// Whether the processor has instructions for these types; true if that is not known.
bool computes_bf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;
#endif
}

bool computes_f16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512fp16") != 0;
#else
  return true;
#endif
}

constexpr std::array amp_entries{
    AmpEntry{"none", "floats", Precision::f32, [] { return true; }, [] { return AnyOptions(NoOptions{}); }},
    AmpEntry{"bf16", "bfloat16, with the range of floats", Precision::bf16, computes_bf16,
             [] { return AnyOptions(NoOptions{}); }},
    AmpEntry{"f16", "float16, with a scale of the loss; steps that overflow are left out", Precision::f16, computes_f16,
             [] { return AnyOptions(LossScaleOptions{}); }},
};
constexpr Table<AmpEntry> amp_lines("precision", amp_entries);

}  // namespace

const Table<AmpEntry>& amp_table() { return amp_lines; }

void check_amp(const AmpSpec& amp, const AlgorithmSpec& algorithm, const ChosenOptimiser& optimiser) {
  if (!scales_loss(amp)) return;
  const auto fail = [&](std::string_view who, std::string_view why) {
    fail_at(amp.place, fmt::format("`{}` {}, and a step that overflows must be left out; use bf16", who, why));
  };
  if (algorithm.entry->traits.steps_elsewhere) fail(algorithm.entry->name, "has servers that take every step");
  if (make_optimiser(optimiser.spec, Layout())->dense_steps() > 0) {
    fail(optimiser.spec.entry->name, "counts its first steps with the codec");
  }
}

}  // namespace sotto
