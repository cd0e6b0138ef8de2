#pragma once

#include <span>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"

namespace sotto {

// ATOMO's water-filling (Wang et al., NeurIPS 2018): the probabilities p_i = min(1, |e_i| / level) with sum p_i = s
// minimise the variance sum e_i^2 / p_i.
class WaterLevel {
 public:
  // The level for the energies of all these groups together. 0 if all non-zero atoms are sent (s is at least their
  // number); not finite if an energy is not. Linear time: nothing is sorted. REQUIRES s > 0.
  double find(ThreadPool& pool, std::span<const Group> groups, double s);

  void reserve(std::size_t atoms) { candidates_.room(atoms); }

 private:
  // The level if only `candidates` (which are reordered) can reach it; `rest` is the sum of all other magnitudes.
  static double among(std::span<float> candidates, double rest, double s);

  Scratch<float> candidates_;
};

}  // namespace sotto
