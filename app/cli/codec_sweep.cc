#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "app/cli/codec_actions.h"
#include "app/cli/measurements.h"
#include "app/cli/plot.h"
#include "app/cli/swept_codec.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

struct SweepOptions {
  std::string codec;
  std::string plot;
  void visit(OptionVisitor& v) {
    v.option("codec", codec, "codec with {} where the values go; its memory is left out");
    v.option("plot", plot, "draw bytes, error and rates into this .svg file");
  }
};

// Finds a file that cannot be written before anything is measured.
void require_plot(const std::string& file) {
  require_ending("plot", file, ".svg");
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

std::string drawn(const std::string& expression, std::span<const MeasuredCodec> codecs) {
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
      Plot{expression, "bytes an element", "relative error", log_bytes, log_error, {error}},
      Plot{"rates", "bytes an element", "GB/s of float input", log_bytes, false, {encode, decode, copy}}};
  return to_svg(plots);
}

}  // namespace

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
  if (own.codec.empty()) throw ConfigError("sotto codec sweep: say what with --codec, as --codec \"qsgd(bits={})\"");
  if (texts.empty()) throw ConfigError("sotto codec sweep: say which values with --values, as --values 1..8");
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
