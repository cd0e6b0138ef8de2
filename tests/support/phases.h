#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/aggregate/recipe.h"
#include "sotto/aggregate/scheduled_aggregator.h"

namespace sotto::test {

struct PhaseText {
  std::uint64_t first_step = 0;
  std::string method;
  std::string aggregator = "auto";
};

inline std::vector<Phase> read_phases(const std::vector<PhaseText>& texts) {
  std::vector<Phase> phases;
  phases.reserve(texts.size());
  for (const PhaseText& text : texts) phases.push_back({text.first_step, read_recipe(text.method, text.aggregator)});
  return phases;
}
inline std::vector<Phase> read_phases(const std::string& method, const std::string& aggregator = "auto") {
  return read_phases({{0, method, aggregator}});
}

}  // namespace sotto::test
