#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sotto {

// Errors name options of the user's by identity, and each front end spells them: `lr` gets dashes on the command line,
// and is an argument in Python. In a text, an option is a mark between two control characters, which no user's text
// holds.

// The mark of an option: named("lr").
std::string named(std::string_view option);
// The same with the value that the user gave: named("codec", "topk(2)").
std::string named(std::string_view option, std::string_view value);

// How a front end writes an option; `value` is empty where the text gives none.
using Spelling = std::function<std::string(std::string_view option, std::string_view value)>;
// That of no front end: "codec topk(2)".
std::string plain_spelling(std::string_view option, std::string_view value);
// The text with every mark spelled.
std::string spelled(std::string_view text, const Spelling& spelling = plain_spelling);

}  // namespace sotto
