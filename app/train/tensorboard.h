#pragma once

#include <memory>

#include "app/train/listener.h"

namespace sotto {

// On the rank RunStart::shown, writes its steps and all evaluations for TensorBoard. ConfigError as
// check_tensorboard().
std::unique_ptr<Listener> make_tensorboard(const Choices& choices);

// ConfigError if a run that does not go on would add to the events of another one.
void check_tensorboard(const TrainOptions& options);

}  // namespace sotto
