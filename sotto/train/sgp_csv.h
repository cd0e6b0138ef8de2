#pragma once

#include <memory>

#include "sotto/train/listener.h"

namespace sotto {

// Writes each rank's steps and evaluations as the programs of Stochastic Gradient Push do (Assran et al., ICML 2019): a
// file TAGout_rR_nW.csv in the run folder, which their scripts plot. ConfigError if the task has no accuracy.
std::unique_ptr<Listener> make_sgp_csv(const Choices& choices);

}  // namespace sotto
