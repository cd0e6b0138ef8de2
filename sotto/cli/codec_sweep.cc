#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "sotto/aggregate/recipe.h"
#include "sotto/cli/codec_actions.h"
#include "sotto/cli/measurements.h"
#include "sotto/cli/plot.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/tune/value_range.h"

namespace sotto {
namespace {

constexpr std::string_view place = "{}";

struct SweepOptions {
  std::string codec;
  std::string plot;
  void visit(OptionVisitor& v) {
    v.option("codec", codec, "sentence with {} where the values go; a memory in front of it is left out");
    v.option("plot", plot, "draw bytes, error and rates into this .svg file");
  }
};

// A comma, as in "0.1,0.2", would separate two arguments of one call.
void require_one_value(const std::string& text) {
  if (text.find(',') == text.npos || text.find_first_not_of("0123456789.,%/eE+- ") != text.npos) return;
  std::string apart = text;
  std::ranges::replace(apart, ',', ' ');
  throw ConfigError(fmt::format("--values {}: a space stands between values, as in --values {}", text, apart));
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
      fmt::format("--codec {}: {{}} stands in the memory, which is not measured here; put it into what follows, as in "
                  "--codec \"ef | topk({{}})\"",
                  sentence));
}

// Finds a file that cannot be written before anything is measured.
void require_plot(const std::string& file) {
  if (!file.ends_with(".svg")) {
    throw ConfigError("--plot " + file + ": plots are SVG; use a name that ends in .svg");
  }
  const auto folder = std::filesystem::absolute(file).parent_path() / ".";
  if (access(folder.c_str(), W_OK) == 0) return;
  throw FileError(
      fmt::format("--plot {}: no file can be made there: {}", file, std::generic_category().message(errno)));
}

// Whether the numbers are positive and span more than a power of ten.
bool wants_log(std::span<const PlotPoint> points, double PlotPoint::*member) {
  double low = INFINITY;
  double high = 0;
  for (const PlotPoint& point : points) {
    low = std::min(low, point.*member);
    high = std::max(high, point.*member);
  }
  return low > 0 && high > 10 * low;
}

std::string drawn(const std::string& sentence, std::span<const MeasuredCodec> codecs) {
  PlotSeries error{"error", {}};
  PlotSeries encode{"encode", {}};
  PlotSeries decode{"decode-add", {}};
  PlotSeries copy{"memcpy", {}};
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    const Measurement& m = codecs[i].result;
    const double bytes = static_cast<double>(m.bytes) / static_cast<double>(m.elements);
    error.points.push_back({bytes, m.relative_error, codecs[i].value});
    encode.points.push_back({bytes, m.encode_gbps, codecs[i].value});
    decode.points.push_back({bytes, m.decode_gbps, ""});
    copy.points.push_back({bytes, m.memcpy_gbps, ""});
  }
  const bool log_bytes = wants_log(error.points, &PlotPoint::x);
  const bool log_error = wants_log(error.points, &PlotPoint::y);
  const std::array plots{
      Plot{sentence, "bytes an element", "relative error", log_bytes, log_error, {error}},
      Plot{"rates", "bytes an element", "GB/s of float input", log_bytes, false, {encode, decode, copy}}};
  return to_svg(plots);
}

}  // namespace

int sweep_codec(std::span<const std::string> arguments) {
  SweepOptions own;
  MeasureOptions options;
  std::vector<std::string> texts;
  Flags flags("codec sweep", "Measures a codec for each of several values of a parameter.", R"text(
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
  if (own.codec.empty()) throw ConfigError("sotto codec sweep: say what with --codec, as --codec \"qsgd(bits={})\"");
  if (own.codec.find(place) == std::string::npos) {
    throw ConfigError("--codec \"" + own.codec +
                      "\": has no {} where values could go, as in --codec \"qsgd(bits={})\"");
  }
  if (texts.empty()) throw ConfigError("sotto codec sweep: say which values with --values, as --values 1..8");
  if (!own.plot.empty()) require_plot(own.plot);
  std::vector<std::string> values;
  for (const std::string& text : texts) add_values(text, values);
  std::vector<std::string> sentences;
  for (const std::string& value : values) sentences.push_back(filled_in(own.codec, value));
  require_swept_codec(own.codec, sentences.front());
  auto codecs = measure_all(sentences, options, flags);
  for (std::size_t i = 0; i < codecs.size(); ++i) codecs[i].value = values[i];
  fmt::print("{}", to_text(codecs, options));
  if (!own.plot.empty()) write_file_atomic(own.plot, drawn(own.codec, codecs));
  return 0;
}

}  // namespace sotto
