#pragma once

#include <memory>

#include "sotto/train/listener.h"

namespace sotto {

// On the rank RunStart::shown, writes its steps and all evaluations for TensorBoard. ConfigError if a run that does not
// go on would add to the events of another one.
std::unique_ptr<Listener> make_tensorboard(const Choices& choices);

}  // namespace sotto
