#pragma once

#include <string>
#include <string_view>

namespace sotto {

// What others wrote, to be printed on a terminal: bytes that are no printable ASCII as \n, \t, \xNN, and a backslash as
// it is. Cut after 4000 characters.
std::string visible(std::string_view text);

}  // namespace sotto
