#include "app/cli/codec/measure.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/cli/codec/vector_file.h"
#include "app/report/text_table.h"
#include "sotto/aggregate/recipe.h"

namespace sotto {
namespace {

GradientFile only(const std::string& name, const std::string& path, const GradientFile& file) {
  std::vector<std::string_view> names;
  for (const Segment& segment : file.layout.segments()) {
    names.push_back(segment.name);
    if (segment.name != name) continue;
    const auto values = std::span(file.values).subspan(segment.offset, segment.numel());
    refuse(values.empty(), "--tensor {}: has no values", name);
    return {Layout({{name, 0, segment.shape}}, values.size()), {values.begin(), values.end()}};
  }
  throw ConfigError(fmt::format("--tensor: {}: {}", path, unknown_name("tensor", name, names)));
}

GradientFile input_of(const MeasureOptions& options, const Flags& flags) {
  if (options.input != "generated") {
    for (const char* name : {"elements", "rows", "sample", "seed"}) {
      refuse(flags.given(name), "--{}: is for generated values, and --input is a file", name);
    }
    GradientFile file = read_vector(options.input);
    if (!options.tensor.empty()) file = only(options.tensor, options.input, file);
    require_finite(options.input, file);
    return file;
  }
  refuse(!options.tensor.empty(), "--tensor: names a tensor of a file; say which file with --input");
  GradientFile input;
  input.values.resize(static_cast<std::size_t>(options.elements));
  fill_sample("sample", options.sample, static_cast<std::uint64_t>(options.seed), input.values);
  refuse(options.elements % options.rows != 0, "--rows {}: {} elements are no whole rows", options.rows,
         options.elements);
  input.layout = Layout({{"values", 0, {options.rows, options.elements / options.rows}}}, input.values.size());
  return input;
}

std::string to_json(std::span<const MeasuredCodec> codecs, const MeasureOptions& options) {
  auto all = nlohmann::ordered_json::array();
  for (const MeasuredCodec& codec : codecs) {
    const Measurement& m = codec.result;
    nlohmann::ordered_json json{{"codec", codec.text}};
    if (!codec.value.empty()) json["value"] = codec.value;
    json.update({{"threads", options.threads},
                 {"elements", m.elements},
                 {"bytes", m.bytes},
                 {"ratio", m.ratio},
                 {"relative_error", m.relative_error},
                 {"encode_gbps", m.encode_gbps},
                 {"decode_gbps", m.decode_gbps},
                 {"memcpy_gbps", m.memcpy_gbps}});
    all.push_back(std::move(json));
  }
  return (codecs.size() == 1 ? all.front() : all).dump(2) + "\n";
}

std::string to_csv(std::span<const MeasuredCodec> codecs, const MeasureOptions& options) {
  const bool swept = !codecs.front().value.empty();
  std::string text =
      fmt::format("codec,{}threads,elements,bytes,ratio,relative_error,encode_gbps,decode_gbps,memcpy_gbps\n",
                  swept ? "value," : "");
  for (const MeasuredCodec& codec : codecs) {  // no codec contains quotes
    const Measurement& m = codec.result;
    text += fmt::format("\"{}\",{}{},{},{},{:.6g},{:.6g},{:.4g},{:.4g},{:.4g}\n", codec.text,
                        swept ? fmt::format("\"{}\",", codec.value) : "", options.threads, m.elements, m.bytes, m.ratio,
                        m.relative_error, m.encode_gbps, m.decode_gbps, m.memcpy_gbps);
  }
  return text;
}

std::string to_table(std::span<const MeasuredCodec> codecs) {
  TextTable table({"codec", "elements", "bytes", "bytes/element", "ratio", "relative error", "encode GB/s",
                   "decode GB/s", "memcpy GB/s"});
  for (const MeasuredCodec& codec : codecs) {
    const Measurement& m = codec.result;
    table.add({codec.text, std::to_string(m.elements), std::to_string(m.bytes),
               fmt::format("{:.3f}", static_cast<double>(m.bytes) / static_cast<double>(m.elements)),
               fmt::format("{:.2f}", m.ratio), fmt::format("{:.4g}", m.relative_error),
               fmt::format("{:.2f}", m.encode_gbps), fmt::format("{:.2f}", m.decode_gbps),
               fmt::format("{:.2f}", m.memcpy_gbps)});
  }
  return table.plain();
}

}  // namespace

std::unique_ptr<Codec> measured_codec(const std::string& expression, std::shared_ptr<ThreadPool> pool) {
  const Recipe recipe = read_recipe(expression);
  if (!recipe.by_itself()) return make_codec(recipe.stages, std::move(pool));
  throw ConfigError(
      fmt::format("--codec {}: `{}` needs other ranks and makes no messages to be measured; try `sotto "
                  "compare`",
                  expression, recipe.aggregator.text()));
}

std::vector<MeasuredCodec> measure_all(std::span<const std::string> expressions, const MeasureOptions& options,
                                       const Flags& flags) {
  refuse(options.csv && options.json, "--csv: contradicts --json");
  const auto pool = std::make_shared<ThreadPool>(static_cast<int>(options.threads));
  std::vector<std::unique_ptr<Codec>> codecs;
  std::vector<Codec*> turns;
  std::vector<MeasuredCodec> measured;
  for (const std::string& expression : expressions) {
    turns.push_back(codecs.emplace_back(measured_codec(expression, pool)).get());
    measured.push_back({turns.back()->traits().text, "", {}});
  }
  const GradientFile input = input_of(options, flags);
  const auto results = measure(turns, input.layout, input.values, static_cast<int>(options.repeats));
  for (std::size_t i = 0; i < results.size(); ++i) measured[i].result = results[i];
  return measured;
}

std::string to_text(std::span<const MeasuredCodec> codecs, const MeasureOptions& options) {
  return options.json ? to_json(codecs, options) : options.csv ? to_csv(codecs, options) : to_table(codecs);
}

}  // namespace sotto
