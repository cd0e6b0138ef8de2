#include "sotto/comm/visible_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

namespace sotto {
namespace {

constexpr std::size_t most_shown = 4000;

struct Character {
  std::size_t bytes = 0;  // 0: what stands there is no UTF-8
  char32_t code = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least[bytes] || surrogate || code > 0x10FFFF) return {};
  return {bytes, code};
}

struct CodeRange {
  char32_t first, last;
};
// Controls, and characters without their own look: marks of direction, joiners, separators of lines, tags.
constexpr std::array<CodeRange, 11> hidden{{{0, 0x1F},
                                            {0x7F, 0x9F},
                                            {0xAD, 0xAD},
                                            {0x61C, 0x61C},
                                            {0x180E, 0x180E},
                                            {0x200B, 0x200F},
                                            {0x2028, 0x202E},
                                            {0x2060, 0x206F},
                                            {0xFEFF, 0xFEFF},
                                            {0xFFF9, 0xFFFB},
                                            {0xE0000, 0xE0FFF}}};

}  // namespace

std::string visible(std::string_view text) {
  std::string shown;
  const std::string_view cut = text.substr(0, most_shown);
  for (std::size_t at = 0; at < cut.size();) {
    const Character character = first_character(cut.substr(at));
    const bool is_hidden = character.bytes == 0 || std::ranges::any_of(hidden, [&](const CodeRange& range) {
                             return character.code >= range.first && character.code <= range.last;
                           });
    const std::string_view bytes = cut.substr(at, std::max<std::size_t>(1, character.bytes));
    at += bytes.size();
    if (!is_hidden) {
      shown += bytes;
    } else if (bytes == "\n" || bytes == "\t") {
      shown += bytes == "\n" ? "\\n" : "\\t";
    } else {
      for (const char c : bytes) {
        fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
  }
  return text.size() > most_shown ? shown + " ..." : shown;
}

}  // namespace sotto
