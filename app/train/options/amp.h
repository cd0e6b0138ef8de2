#pragma once

#include <string_view>

#include "app/task/table.h"
#include "app/train/options/optimiser.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/table.h"

namespace sotto {

// A line of the table of precisions in which layers compute during training (automatic mixed precision).
struct AmpEntry {
  std::string_view name;
  std::string_view summary;
  Precision precision;
  bool (*native)();  // whether this processor has instructions for this precision
  AnyOptions (*options)();
};
const Table<AmpEntry>& amp_table();

using AmpSpec = Spec<AmpEntry>;

// ConfigError if the loss is scaled but the algorithm or optimiser cannot leave out a step.
void check_amp(const AmpSpec& amp, const AlgorithmSpec& algorithm, const ChosenOptimiser& optimiser);

// Whether the loss is scaled. If so, the options of the entry are LossScaleOptions.
inline bool scales_loss(const AmpSpec& amp) { return amp.entry->precision == Precision::f16; }

}  // namespace sotto
