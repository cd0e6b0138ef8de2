#pragma once

#include <memory>

#include "app/train/listener.h"

namespace sotto {

// Serves figures of rank 0 for Prometheus, as text at http://127.0.0.1:PORT/metrics, until the run ends. ConfigError if
// the port is taken.
std::unique_ptr<Listener> make_metrics_page(const Choices& choices);

}  // namespace sotto
