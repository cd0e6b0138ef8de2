#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sotto {

// Error messages refer to options by marks, because each front end spells them in its own way: with dashes on the
// command line, `lr=` in Python. A mark is the option's name between two control characters, which users do not type.

// The mark of an option: named("lr").
std::string named(std::string_view option);
// The mark of an option with the value that the user gave: named("codec", "topk(2)").
std::string named(std::string_view option, std::string_view value);

// Whether it is one of the control characters of marks.
bool is_mark(char c);

// How a front end writes an option; `value` is empty when the mark has none.
using Spelling = std::function<std::string(std::string_view option, std::string_view value)>;
// The spelling without a front end: "codec topk(2)".
std::string plain_spelling(std::string_view option, std::string_view value);
// Replaces every mark of the text by its spelling.
std::string spelled(std::string_view text, const Spelling& spelling = plain_spelling);

}  // namespace sotto
