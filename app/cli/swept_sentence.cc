#include "app/cli/swept_sentence.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/aggregate/recipe.h"
#include "sotto/core/error.h"
#include "app/tune/value_range.h"

namespace sotto {
namespace {

constexpr std::string_view place = "{}";

// A comma, as in "0.1,0.2", would separate two arguments of one call.
void require_one_value(const std::string& text) {
  if (text.find(',') == text.npos || text.find_first_not_of("0123456789.,%/eE+- ") != text.npos) return;
  std::string apart = text;
  std::ranges::replace(apart, ',', ' ');
  throw ConfigError(fmt::format("--values {}: separate values by spaces, as in --values {}", text, apart));
}

// The values of a range, such as "1..8" or "0.001..0.1/5"; any other text is one value.
void add_values(const std::string& text, std::vector<std::string>& values) {
  constexpr std::uint64_t most = 1001;
  require_one_value(text);
  const auto range = ValueRange::of_text("--values", text);
  if (!range) {
    values.push_back(text);
    return;
  }
  const auto size = range->size();
  if (!size) throw ConfigError(fmt::format("--values {0}: say how many numbers, as {0}/5", text));
  if (*size > most) throw ConfigError(fmt::format("--values {}: more than {} values", text, most));
  for (std::string& value : range->values()) values.push_back(std::move(value));
}

std::string filled_in(std::string_view sentence, const std::string& value) {
  std::string text;
  for (std::size_t at = sentence.find(place); at != sentence.npos; at = sentence.find(place)) {
    text.append(sentence.substr(0, at)).append(value);
    sentence.remove_prefix(at + place.size());
  }
  return text.append(sentence);
}

// Measurements leave the memory out, so a sweep of its options alone would make equal rows.
void require_swept_codec(const std::string& sentence, const std::string& filled) {
  const std::size_t codec = sentence.find('|');
  if (codec < sentence.size() && sentence.rfind(place) > codec) return;
  const Recipe recipe = read_recipe(filled);
  if (!recipe.memory || !recipe.preset.empty()) return;
  throw ConfigError(
      fmt::format("--codec {}: {{}} is in the memory, which is not measured here; put it into the stages, as in "
                  "--codec \"ef | topk({{}})\"",
                  sentence));
}

}  // namespace

bool is_swept(std::string_view sentence) { return sentence.find(place) != sentence.npos; }

std::vector<SweptSentence> sweep(const std::string& sentence, std::span<const std::string> texts) {
  if (!is_swept(sentence)) {
    throw ConfigError("--codec \"" + sentence + "\": has no {} where values could go, as in --codec \"qsgd(bits={})\"");
  }
  std::vector<std::string> values;
  for (const std::string& text : texts) add_values(text, values);
  std::vector<SweptSentence> swept;
  for (const std::string& value : values) swept.push_back({filled_in(sentence, value), value});
  require_swept_codec(sentence, swept.front().sentence);
  return swept;
}

}  // namespace sotto
