#pragma once

#include <string>
#include <string_view>

#include "sotto/core/table.h"

namespace sotto {

// A name for a whole method. It must be the whole sentence, without options. No preset has the name of a stage.
struct Preset {
  std::string_view name;
  std::string_view memory;      // the memory's part of the sentence; empty: none
  std::string_view codec;       // the rest of the sentence: a codec, or a method in its place
  std::string_view aggregator;  // that the method is tied to; "auto": any
  std::string_view optimiser;   // that the method is tied to, as a sentence; "auto": any
  std::string_view paper;
  std::string_view summary;
  std::string_view pitfalls;
};

const Table<Preset>& preset_table();

// What the preset stands for: "ef | topk(0.01)".
std::string sentence_of(const Preset& preset);

}  // namespace sotto
