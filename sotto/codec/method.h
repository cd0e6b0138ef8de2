#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sotto {

// What a sentence of the user says, taken apart: "ef | topk(0.01) | f16" or the name of a preset.
struct Method {
  std::string memory;               // "ef"; empty: none. Made by whoever owns the memories.
  std::string codec;                // canonical, for make_codec()
  std::string aggregator = "auto";  // of a preset that is tied to one
  std::string preset;               // its name, or empty
};

// `memories` are the names that may stand first. ConfigError with a caret in the user's own text; the codec's part is
// checked here, the options of the memory are not.
Method parse_method(std::string_view where, std::string_view sentence, std::span<const std::string_view> memories);

// The aggregator to use when the user asked for `asked` ("auto": for none). ConfigError when a preset is tied to
// another.
std::string choose_aggregator(std::string_view where, const Method& method, std::string_view asked);

}  // namespace sotto
