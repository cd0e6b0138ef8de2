#include "sotto/comm/visible_text.h"

#include <fmt/format.h>

#include <iterator>

namespace sotto {

std::string visible(std::string_view text) {
  constexpr std::size_t most = 4000;
  std::string shown;
  for (const char c : text.substr(0, most)) {
    if (c >= ' ' && c <= '~') {
      shown += c;
    } else if (c == '\n' || c == '\t') {
      shown += c == '\n' ? "\\n" : "\\t";
    } else {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text.size() > most ? shown + " ..." : shown;
}

}  // namespace sotto
