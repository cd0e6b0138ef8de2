#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// A codec that was made from a text in which {} stood for a value.
struct SweptCodec {
  std::string text, value;
};

// Whether there is a {} in the text.
bool is_swept(std::string_view expression);
// The codec with each of the values in place of {}. A text is one value, or a range such as "1..8". ConfigError about
// --codec or --values if there is no {}, or only in the memory, which is not measured, or if a range is bad or too
// long.
std::vector<SweptCodec> sweep(const std::string& expression, std::span<const std::string> texts);

}  // namespace sotto
