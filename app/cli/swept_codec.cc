#include "app/cli/swept_codec.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/tune/value_range.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/core/error.h"

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

std::string filled_in(std::string_view expression, const std::string& value) {
  std::string text;
  for (std::size_t at = expression.find(place); at != expression.npos; at = expression.find(place)) {
    text.append(expression.substr(0, at)).append(value);
    expression.remove_prefix(at + place.size());
  }
  return text.append(expression);
}

// Measurements leave the memory out, so a sweep of its options alone would make equal rows.
void require_swept_codec(const std::string& expression, const std::string& filled) {
  const std::size_t codec = expression.find('|');
  if (codec < expression.size() && expression.rfind(place) > codec) return;
  const Recipe recipe = read_recipe(filled);
  if (!recipe.memory || !recipe.preset.empty()) return;
  throw ConfigError(
      fmt::format("--codec {}: {{}} is in the memory, which is not measured here; put it into the stages, as in "
                  "--codec \"ef | topk({{}})\"",
                  expression));
}

}  // namespace

bool is_swept(std::string_view expression) { return expression.find(place) != expression.npos; }

std::vector<SweptCodec> sweep(const std::string& expression, std::span<const std::string> texts) {
  if (!is_swept(expression)) {
    throw ConfigError("--codec \"" + expression +
                      "\": has no {} where values could go, as in --codec \"qsgd(bits={})\"");
  }
  std::vector<std::string> values;
  for (const std::string& text : texts) add_values(text, values);
  std::vector<SweptCodec> swept;
  for (const std::string& value : values) swept.push_back({filled_in(expression, value), value});
  require_swept_codec(expression, swept.front().text);
  return swept;
}

}  // namespace sotto
