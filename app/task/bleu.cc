#include "app/task/translate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace sotto {
namespace {

constexpr std::size_t longest = 4;  // n-grams

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Punctuation that always stands alone: ASCII's, except ' , - and the full stop.
bool stands_alone(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

bool is_stop(char c) { return c == '.' || c == ','; }

// Puts `before`, `between` and `after` around the characters of every pair of neighbours that `is_pair` accepts, from
// left to right and without overlap.
std::string split_pairs(const std::string& text, bool (*is_pair)(char, char), std::string_view before,
                        std::string_view between, std::string_view after) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool pair = i + 1 < text.size() && is_pair(text[i], text[i + 1]);
    if (pair) (out += before).append(1, text[i++]) += between;
    out += text[i];
    if (pair) out += after;
  }
  return out;
}

// The length in bytes of the Unicode white space at the beginning of `text`; 0 if there is none.
std::size_t space_at(std::string_view text) {
  const char c = text[0];
  if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f')) return 1;
  for (const std::string_view space :
       {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",
        "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

using Grams = std::map<std::vector<std::string>, double>;

Grams grams_of(const std::vector<std::string>& words, std::size_t n) {
  Grams grams;
  for (std::size_t i = 0; i + n <= words.size(); ++i) {
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(i);
    ++grams[{begin, begin + static_cast<std::ptrdiff_t>(n)}];
  }
  return grams;
}

}  // namespace

std::vector<std::string> words_13a(std::string_view said) {
  std::string text(said);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> replacements{
      {{"<skipped>", ""}, {"-\n", ""}, {"\n", " "}, {"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}}};
  for (const auto& [from, to] : replacements) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  std::string spaced = " ";
  for (const char c : text + " ") {
    spaced += stands_alone(c) ? std::string{' ', c, ' '} : std::string{c};
  }
  // Sets apart full stops and commas, unless they are between digits, and a dash after a digit.
  spaced = split_pairs(
      spaced, [](char a, char b) { return !is_digit(a) && is_stop(b); }, "", " ", " ");
  spaced = split_pairs(
      spaced, [](char a, char b) { return is_stop(a) && !is_digit(b); }, " ", " ", "");
  spaced = split_pairs(
      spaced, [](char a, char b) { return is_digit(a) && b == '-'; }, "", " ", " ");
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t i = 0; i < spaced.size();) {
    const std::size_t space = space_at(std::string_view(spaced).substr(i));
    if (space == 0) {
      if (!inside) words.emplace_back();
      words.back() += spaced[i];
    }
    inside = space == 0;
    i += std::max<std::size_t>(1, space);
  }
  return words;
}

BleuCounts bleu_counts(std::string_view output, std::string_view reference) {
  const std::vector<std::string> made = words_13a(output), wanted = words_13a(reference);
  BleuCounts counts{};
  for (std::size_t n = 1; n <= longest; ++n) {
    const Grams known = grams_of(wanted, n);
    for (const auto& [gram, count] : grams_of(made, n)) {
      const auto found = known.find(gram);
      counts[n - 1] += std::min(count, found == known.end() ? 0 : found->second);
      counts[longest + n - 1] += count;
    }
  }
  counts[2 * longest] = static_cast<double>(made.size());
  counts[2 * longest + 1] = static_cast<double>(wanted.size());
  return counts;
}

double bleu_score(std::span<const double> counts) {
  const auto right = counts.first(longest), all = counts.subspan(longest, longest);
  const double made = counts[2 * longest], wanted = counts[2 * longest + 1];
  if (std::ranges::all_of(right, [](double count) { return count == 0; })) return 0;
  double logs = 0, smooth = 1;
  for (std::size_t n = 0; n < longest; ++n) {
    if (all[n] == 0) return 0;  // no n-gram so long
    if (right[n] == 0) smooth *= 2;
    logs += std::log(right[n] == 0 ? 1 / (smooth * all[n]) : right[n] / all[n]);
  }
  const double brevity = made < wanted ? std::exp(1 - wanted / made) : 1;
  return 100 * brevity * std::exp(logs / longest);
}

}  // namespace sotto
