#pragma once

#include <string>

#include "sotto/train/options.h"

namespace sotto {

// The optimiser that the options say, with every option named: --optimiser, or that of the codec's preset, or sgd; with
// --momentum, --nesterov and --weight-decay as options of it. ConfigError when it has no such option, or says it
// itself.
std::string optimiser_of(const TrainOptions& options);

// Fills in the learning rate and momentum of the optimiser or of the model, where nobody said them. ConfigError as
// above.
void resolve_optimiser(TrainOptions& options, double model_lr, double model_momentum);

// One line an optimiser, for help.
std::string optimiser_list();

}  // namespace sotto
