#pragma once

#include <string>
#include <string_view>

#include "sotto/core/table.h"

namespace sotto {

// A name for a whole method. The option `codec` means the preset only if its text is the name alone. No preset has the
// name of a stage or of a memory.
struct Preset {
  std::string_view name;
  std::string_view memory;      // the memory's part of the codec; empty: none
  std::string_view codec;       // the rest: stages, or a method in their place
  std::string_view aggregator;  // the one that the method is tied to; "auto": any
  std::string_view optimiser;   // the one that the method is tied to; "auto": any
  std::string_view paper;
  std::string_view summary;
  std::string_view pitfalls;
  double rate = 1;  // multiplies the default learning rate, which is the model's, or the optimiser's if it has one
  double lost = 0;  // points lost against dense training at that rate: the mean over the jobs of bench/presets.py
};

const Table<Preset>& preset_table();

// The share of the learning rate that is the default with a preset; 1 without one.
double rate_with(std::string_view preset);
// A warning about a preset that loses much at its default rate; empty if it does not, or if there is no preset.
std::string warning_about_default_rate(std::string_view option, std::string_view preset);

// What the preset stands for: "ef | topk(0.01)".
std::string text_of(const Preset& preset);

}  // namespace sotto
