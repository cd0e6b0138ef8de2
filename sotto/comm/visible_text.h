#pragma once

#include <string>
#include <string_view>

namespace sotto {

// Makes text from others safe for a terminal: bytes that are not printable ASCII become \n, \t or \xNN; a backslash
// stays. The text is cut after 4000 characters.
std::string visible(std::string_view text);

}  // namespace sotto
