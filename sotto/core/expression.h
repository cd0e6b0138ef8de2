#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// One argument of a call: `ratio=0.01` or, positional, `0.01`. A value may contain balanced parentheses, with `|`
// inside them.
struct Argument {
  std::string key;  // empty when positional
  std::string value;
  std::size_t position = 0;        // of the argument in the expression's text
  std::size_t value_position = 0;  // of its value
};

// `name(argument, ...)`. Without arguments the parentheses may be left out.
struct Call {
  std::string name;
  std::vector<Argument> arguments;
  std::size_t position = 0;
};

// `call | call | ...`, as a user writes it in a flag, an argument or a file. `option` is the name of the option that
// has this text as its value: "codec".
struct Expression {
  std::string option;
  std::string text;
  std::vector<Call> calls;
};

// Where a call, or something in it, is in the user's text.
struct Place {
  std::string option;        // whose value the text is
  std::string text;          // the whole expression
  std::string call;          // the text of the call
  std::size_t position = 0;  // in the expression
};

// Parses call { "|" call }, where a call is name [ "(" [ argument { "," argument } ] ")" ], and an argument [ key "=" ]
// value. Names and keys are [A-Za-z_][A-Za-z0-9_-]*. Throws ConfigError with a caret under the offending character.
Expression parse_expression(std::string_view option, std::string_view text);

// Parses arguments without a call around them, from text[begin] to the end: after the colon in "*.bias: lr-scale=0.5".
// In errors the whole text stands for the call.
Expression parse_arguments(std::string_view option, std::string_view text, std::size_t begin);

// The text of one call, as the user wrote it: "topk(1.5)".
std::string_view text_of(const Expression& expression, const Call& call);

Place place_of(const Expression& expression, const Call& call);

// Throws ConfigError. Its text is the option with the call as its value, the message, then the expression and a caret.
[[noreturn]] void fail_at(const Place& place, const std::string& message);
[[noreturn]] void fail_at(const Expression& expression, const Call& call, std::size_t position,
                          const std::string& message);

// The known name that `name` may be a misspelling of: the nearest one by edit distance, if it is near enough. Otherwise
// the first known name that begins with `name`, or "".
std::string nearest_name(std::string_view name, std::span<const std::string_view> known);

// "unknown KIND `name`; did you mean `nearest`? known: a, b, c"
std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string_view> known);

}  // namespace sotto
