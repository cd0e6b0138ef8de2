#pragma once

#include <memory>

#include "app/train/listener.h"

namespace sotto {

// Writes each rank's steps and evaluations as the programs of Stochastic Gradient Push do (Assran et al., ICML 2019): a
// file TAGout_rR_nW.csv in the run folder, which their scripts plot.
std::unique_ptr<Listener> make_sgp_csv(const Choices& choices);

// ConfigError if the task has no accuracy, or if no file can have such a tag in its name.
void check_sgp_csv(const TrainOptions& options, const TaskEntry& task);

}  // namespace sotto
