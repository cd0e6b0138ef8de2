#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <system_error>

#include "app/cli/codec/measure.h"
#include "app/cli/commands.h"
#include "app/cli/report/plot.h"
#include "app/tune/value_range.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::string_view place = "{}";

// The values of a range, such as "1..8" or "0.001..0.1/5"; any other text is one value.
void add_values(const std::string& text, std::vector<std::string>& values) {
  constexpr std::uint64_t most = 1001;
  if (text.find(',') != text.npos && text.find_first_not_of("0123456789.,%/eE+- ") == text.npos) {
    std::string apart = text;
    std::ranges::replace(apart, ',', ' ');  // a comma would separate arguments of the call
    throw ConfigError(fmt::format("--values {}: separate values by spaces, as in --values {}", text, apart));
  }
  const auto range = ValueRange::of_text("--values", text);
  if (!range) {
    values.push_back(text);
    return;
  }
  const auto size = range->size();
  refuse(!size, "--values {0}: say how many numbers, as {0}/5", text);
  refuse(*size > most, "--values {}: more than {} values", text, most);
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

// ConfigError if only the memory varies: measurements leave it out, so all rows would be equal.
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

struct SweepOptions {
  std::string codec;
  std::string plot;
  void visit(OptionVisitor& v) {
    v.option("codec", codec, "codec with {} where the values go; its memory is left out");
    v.option("plot", plot, "draw bytes, error and rates into this .svg file");
  }
};

// FileError, before anything is measured, if the plot could not be written.
void require_plot(const std::string& file) {
  require_ending("plot", file, ".svg");
  const auto folder = std::filesystem::absolute(file).parent_path() / ".";
  if (access(folder.c_str(), W_OK) == 0) return;
  throw FileError(
      fmt::format("--plot {}: no file can be made there: {}", file, std::generic_category().message(errno)));
}

// Whether the numbers are positive and span more than a power of ten.
bool wants_log(std::span<const PlotPoint> points, double PlotPoint::*member) {
  double low = INFINITY, high = 0;
  for (const PlotPoint& point : points) {
    low = std::min(low, point.*member);
    high = std::max(high, point.*member);
  }
  return low > 0 && high > 10 * low;
}

std::string drawn(const std::string& expression, std::span<const MeasuredCodec> codecs) {
  PlotSeries error{"error", {}}, encode{"encode", {}}, decode{"decode-add", {}}, copy{"memcpy", {}};
  for (const auto& [text, value, m] : codecs) {
    const double bytes = static_cast<double>(m.bytes) / static_cast<double>(m.elements);
    error.points.push_back({bytes, m.relative_error, value});
    encode.points.push_back({bytes, m.encode_gbps, value});
    decode.points.push_back({bytes, m.decode_gbps, ""});
    copy.points.push_back({bytes, m.memcpy_gbps, ""});
  }
  const bool log_bytes = wants_log(error.points, &PlotPoint::x);
  const bool log_error = wants_log(error.points, &PlotPoint::y);
  const std::array plots{
      Plot{expression, "bytes an element", "relative error", log_bytes, log_error, {error}},
      Plot{"rates", "bytes an element", "GB/s of float input", log_bytes, false, {encode, decode, copy}}};
  return to_svg(plots);
}

}  // namespace

bool is_swept(std::string_view expression) { return expression.find(place) != expression.npos; }

std::vector<SweptCodec> sweep(const std::string& expression, std::span<const std::string> texts) {
  refuse(!is_swept(expression), "--codec \"{}\": has no {{}} where values could go, as in --codec \"qsgd(bits={{}})\"",
         expression);
  std::vector<std::string> values;
  for (const std::string& text : texts) add_values(text, values);
  std::vector<SweptCodec> swept;
  for (const std::string& value : values) swept.push_back({filled_in(expression, value), value});
  require_swept_codec(expression, swept.front().text);
  return swept;
}

int sweep_codec(std::span<const std::string> arguments) {
  SweepOptions own;
  MeasureOptions options;
  std::vector<std::string> texts;
  Flags flags("codec sweep", "Measures a codec once for each value of a parameter.", R"text(
Examples:
  sotto codec sweep --codec "qsgd(bits={})" --values 1..8 --plot qsgd.svg
  sotto codec sweep --codec "topk({}) | f16" --values 0.001..0.1/5 --sample student --csv)text");
  flags.add(own);
  flags.add_list("values", texts,
                 "values for {}: 1..8 are whole numbers, 2^-3..2^0 powers, 0.001..0.1/5 five in equal ratios");
  flags.add(options);
  if (!flags.parse(arguments)) return 0;
  flags.assign(own);
  flags.assign(options);
  refuse(own.codec.empty(), "sotto codec sweep: say what with --codec, as --codec \"qsgd(bits={{}})\"");
  refuse(texts.empty(), "sotto codec sweep: say which values with --values, as --values 1..8");
  if (!own.plot.empty()) require_plot(own.plot);
  std::vector<std::string> expressions;
  const auto swept = sweep(own.codec, texts);
  for (const SweptCodec& one : swept) expressions.push_back(one.text);
  auto codecs = measure_all(expressions, options, flags);
  for (std::size_t i = 0; i < codecs.size(); ++i) codecs[i].value = swept[i].value;
  fmt::print("{}", to_text(codecs, options));
  if (!own.plot.empty()) write_file_atomic(own.plot, drawn(own.codec, codecs));
  return 0;
}

}  // namespace sotto
