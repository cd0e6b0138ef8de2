#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "app/task/table.h"
#include "app/train/options/options.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/table.h"
#include "sotto/optim/averaged.h"
#include "sotto/optim/clip.h"
#include "sotto/optim/optimiser.h"
#include "sotto/optim/parameter_groups.h"

namespace sotto {

struct ChosenOptimiser {
  OptimiserSpec spec;
  double lr = 0;
  std::vector<ParameterGroup> groups;
  ClipSpec clip;
  Averaging averaging;
};

// The optimiser of a run: by the option `optimiser`; if that is `auto`, by the preset of the codec, by the algorithm,
// or by the model, in this order. `momentum`, `nesterov` and `weight-decay` become options of that optimiser; so does
// `codec-start-after` if the optimiser begins with dense steps. A learning rate or momentum that the user does not set
// is the optimiser's or the model's default. With `lr-scale` the rate is for 256 examples and grows with the examples
// per step (the linear scaling rule; Goyal et al., 2017). `group`, `clip`, `average-iterates` and `ema` are read, too.
// ConfigError if the optimiser has no such option, if its text gives the option already, or if momentum is applied
// twice: before gradients are sent, and by the optimiser.
ChosenOptimiser read_optimiser(const TrainOptions& options, const Recipe& recipe, const ModelDefaults& model,
                               const AlgorithmSpec& algorithm);

// Makes the optimiser with its groups, clipping after the exchange, and averaging; Replica clips before the exchange.
// ConfigError if a group has no tensor (groups_of_tensors()).
std::unique_ptr<Optimiser> make_optimiser(const ChosenOptimiser& chosen, const Layout& layout);

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
