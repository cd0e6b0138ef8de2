#pragma once

#include <memory>

#include "sotto/train/listener.h"

namespace sotto {

// Writes rank 0's steps and all evaluations for TensorBoard. ConfigError if a run that does not go on would add to the
// events of another one.
std::unique_ptr<Listener> make_tensorboard(const TrainOptions& options);

}  // namespace sotto
