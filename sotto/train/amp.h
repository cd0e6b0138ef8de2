#pragma once

#include <string_view>

#include "sotto/algorithm/algorithm.h"
#include "sotto/core/table.h"
#include "sotto/task/table.h"
#include "sotto/train/optimiser.h"

namespace sotto {

// A line of the table of what layers compute with in training (automatic mixed precision).
struct AmpEntry {
  std::string_view name;
  std::string_view summary;
  Precision precision;
  bool (*native)();  // whether this processor has instructions for it
  AnyOptions (*options)();
};
const Table<AmpEntry>& amp_table();

using AmpSpec = Spec<AmpEntry>;

// ConfigError where a scaled loss does not suit the algorithm or optimiser, which could not leave out a step.
void check_amp(const AmpSpec& amp, const AlgorithmSpec& algorithm, const ChosenOptimiser& optimiser);

// Whether the loss is scaled: the options of the entry are then LossScaleOptions.
inline bool scales_loss(const AmpSpec& amp) { return amp.entry->precision == Precision::f16; }

}  // namespace sotto
