#pragma once

#include <string>
#include <string_view>

#include "sotto/codec/presets.h"
#include "sotto/codec/stages.h"

namespace sotto {

// One line each, for listing: "topk   select   the largest elements, by magnitude".
std::string list_stages();
std::string list_presets();

// What they are: summary, paper, options, bytes, contract. `memory` is the canonical sentence of what stands before a
// codec, and of which nothing else is said here.
// Sizes are those of `example`, one matrix.
const Layout& example();
std::string example_bytes(std::size_t bytes);  // "1000000 for a segment of 1000 x 1000 floats, 8 bit an element"
std::string describe_stage(const StageEntry& stage);
std::string describe_preset(const Preset& preset, std::string_view memory);
// Of a sentence of stages; ConfigError where it is none.
std::string describe_codec(std::string_view where, std::string_view sentence, std::string_view memory = "");

}  // namespace sotto
