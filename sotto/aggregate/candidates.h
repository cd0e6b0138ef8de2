#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sotto/aggregate/recipe.h"

namespace sotto {

// What a method costs in accuracy, as docs/results/codecs.md and docs/results/jobs.md measured it for methods like it.
enum class Quality : std::uint8_t {
  high,    // the loss of dense training, within the spread of seeds
  medium,  // near it
  low,     // near it in some trainings, and worse in others
};
std::string_view text_of(Quality quality);
Quality quality_of(std::string_view text);  // REQUIRES a text of text_of()

// A method that this program proposes by itself.
struct Candidate {
  std::string_view codec;
  Quality quality = Quality::high;
  bool tried = false;  // by `auto`, whose trials cost steps: those that no other candidate is likely to beat everywhere
};
// Dense comes first. What a rank sends becomes less and less within a quality.
std::span<const Candidate> candidates();
Recipe recipe_of(const Candidate& candidate);

}  // namespace sotto
