#pragma once

#include <cstdlib>

namespace sotto {

// The number of threads that torch computes with. The order of sums depends on it, and so do their last bits.
int compute_threads();

// OpenMP's threads spin until there is work again. By default they spin for so long that steps take many times as long
// when other programs use the cores, too (docs/performance.md). This variable bounds the spinning; GNU's OpenMP reads
// it when it is loaded. brief_spins() returns null if the user has set this variable or OMP_WAIT_POLICY.
struct SpinVariable {
  const char *name, *value;
};
inline constexpr SpinVariable spin_variable{"GOMP_SPINCOUNT", "30000"};
inline const SpinVariable* brief_spins() {
  const bool chosen = std::getenv(spin_variable.name) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr;
  return chosen ? nullptr : &spin_variable;
}

// Holds from now on. A forked rank needs it: its libraries were loaded before OMP_NUM_THREADS was set, and do not heed
// that variable.
void set_compute_threads(int count);

}  // namespace sotto
