#pragma once

#include <string>
#include <string_view>

namespace sotto {

// One line each, for listing: "topk   select   the largest elements, by magnitude".
std::string list_stages();
std::string list_presets();

// What a stage, a preset or a whole codec sentence is: summary, paper, options, bytes, contract. ConfigError for
// neither.
std::string describe_codec(std::string_view where, std::string_view text);

}  // namespace sotto
