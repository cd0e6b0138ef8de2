#pragma once

#include <cstdlib>

namespace sotto {

// The number of threads that torch computes with. The order of sums depends on it, and so do their last bits.
int compute_threads();

// OpenMP's threads spin until there is work again, by default for so long that steps become many times as long where
// other programs have the cores, too (docs/performance.md). This variable bounds it. GNU's OpenMP reads it when it is
// loaded. Null if the user has chosen, with it or with OMP_WAIT_POLICY.
struct SpinVariable {
  const char *name, *value;
};
inline constexpr SpinVariable spin_variable{"GOMP_SPINCOUNT", "30000"};
inline const SpinVariable* brief_spins() {
  const bool chosen = std::getenv(spin_variable.name) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr;
  return chosen ? nullptr : &spin_variable;
}

// From now on. A library that was loaded before OMP_NUM_THREADS was set does not heed it, as in a rank that was forked.
void set_compute_threads(int count);

}  // namespace sotto
