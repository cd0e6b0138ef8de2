#pragma once

#include <string>
#include <string_view>

namespace sotto {

// Makes text from others safe for a terminal and for a log of one line: control characters, characters that change the
// order or the look of those around them, and bytes that are no UTF-8 become \n, \t or \xNN. A backslash stays. The
// text is cut after 4000 bytes. Whoever reaches a store may write to it, so its texts are read by this alone.
std::string visible(std::string_view text);

}  // namespace sotto
