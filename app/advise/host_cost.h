#pragma once

#include <cstddef>

namespace sotto {

// The cost of the software below a link: the time until a message has arrived over a link without limits.
struct HostCost {
  double message = 0;  // seconds
  double byte = 0;     // and for each byte

  double of(std::size_t bytes) const { return message + byte * static_cast<double>(bytes); }
};

// Measures it between two ranks over the default transport and the loopback. CommError.
HostCost measure_host_cost();

}  // namespace sotto
