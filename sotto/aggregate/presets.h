#pragma once

#include <string>
#include <string_view>

#include "sotto/core/table.h"

namespace sotto {

// A name for a whole method. A sentence means the preset only if it is the bare name. No preset has the name of a stage
// or of a memory.
struct Preset {
  std::string_view name;
  std::string_view memory;      // the memory's part of the sentence; empty: none
  std::string_view codec;       // the rest of the sentence: a codec, or a method in its place
  std::string_view aggregator;  // the one that the method is tied to; "auto": any
  std::string_view optimiser;   // sentence of the one that the method is tied to; "auto": any
  std::string_view paper;
  std::string_view summary;
  std::string_view pitfalls;
};

const Table<Preset>& preset_table();

// What the preset stands for: "ef | topk(0.01)".
std::string sentence_of(const Preset& preset);

}  // namespace sotto
