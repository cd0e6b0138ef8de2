#pragma once

#include <string>
#include <string_view>

namespace sotto {

// Escapes text for HTML and SVG: between tags, and in attributes with double or single quotes.
std::string escaped(std::string_view text);

}  // namespace sotto
