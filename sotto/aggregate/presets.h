#pragma once

#include <string>
#include <string_view>

#include "sotto/core/table.h"

namespace sotto {

// A name for a whole method. It is meant when a sentence is that bare name alone: `topk` is the preset, `topk()` or
// `topk | f16` the stage.
struct Preset {
  std::string_view name;
  std::string_view memory;      // sentence of the memory; empty: none
  std::string_view codec;       // sentence of the codec, or of the aggregator that takes its place
  std::string_view aggregator;  // "auto", or the one that the method is tied to
  std::string_view optimiser;   // "auto": any; or a sentence of the one that the method is tied to
  std::string_view paper;
  std::string_view summary;
  std::string_view pitfalls;
};

const Table<Preset>& preset_table();

// What it means, in full: "ef | topk(0.01)".
std::string sentence_of(const Preset& preset);

}  // namespace sotto
