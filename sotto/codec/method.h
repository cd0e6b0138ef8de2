#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sotto {

// What a sentence of the user says, taken apart: "ef | topk(0.01) | f16" or the name of a preset.
struct Method {
  std::string memory;  // "ef"; empty: none. Made by whoever owns the memories.
  std::string codec;   // canonical, for make_codec()
  // "auto"; or the one that a preset is tied to; or the call that stands in place of a codec's stages: "power(2)".
  std::string aggregator = "auto";
  bool by_itself = false;  // that call is there
  std::string preset;      // its name, or empty
  // "auto"; or the sentence of the optimiser that a preset is tied to.
  std::string optimiser = "auto";
};

// `memories` are the names that may stand first, `aggregators` those that may stand next, in place of a codec; behind
// one of these only a linear codec may follow. ConfigError with a caret in the user's own text; the codec's part is
// checked here, the options of memory and aggregator are not.
Method parse_method(std::string_view where, std::string_view sentence, std::span<const std::string_view> memories,
                    std::span<const std::string_view> aggregators = {});

// The aggregator to use when the user asked for `asked` ("auto": for none). ConfigError when the method is tied to
// another.
std::string choose_aggregator(std::string_view where, const Method& method, std::string_view asked);

// The same of its optimiser, as a sentence; another one of the same kind ("signum(momentum=0)") is the user's choice.
std::string choose_optimiser(std::string_view where, const Method& method, std::string_view asked);

}  // namespace sotto
