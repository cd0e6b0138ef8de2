#include <fmt/format.h>

#include <algorithm>

#include "app/analyze/codec_study.h"
#include "app/analyze/figures.h"
#include "app/analyze/gradient_analysis.h"
#include "app/cli/codec/measure.h"
#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/launch/console.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
`sotto train --capture every=10,dir=DIR` writes the folder; ranks=all and memory=true add more to it.

Examples:
  sotto analyze gradients --csv tables
  sotto analyze gradients --codec "topk(0.01)" "qsgd(4) | rans" -o gradients.html
  sotto analyze gradients --codec "qsgd(bits={})" --values 1..8 --merge 4 64 1024)text";

constexpr std::size_t most_steps = 20;  // in the table of a terminal

std::vector<StudiedCodec> codecs_of(std::span<const std::string> said, std::span<const std::string> values) {
  std::vector<StudiedCodec> studied;
  for (const std::string& expression : said) {
    if (!is_swept(expression)) {
      studied.push_back({expression});
      continue;
    }
    refuse(values.empty(), "--codec \"{}\": say which values with --values", expression);
    for (const SweptCodec& one : sweep(expression, values)) studied.push_back({one.text, one.value});
  }
  refuse(!values.empty() && std::ranges::none_of(said, is_swept),
         "--values: no codec of --codec has a {{}} where they could go");
  return studied;
}

std::vector<std::size_t> numbers_of(std::span<const std::string> texts) {
  std::vector<std::size_t> numbers;
  for (const std::string& text : texts) {
    numbers.push_back(static_cast<std::size_t>(parse_int("--merge", text, Bounds{1, 65536})));
  }
  return numbers;
}

// The captured files of a folder, or the one file that is given.
std::vector<CapturedFile> files_of(const std::string& path) {
  std::error_code missing;
  if (!std::filesystem::is_regular_file(path, missing)) return captured_files(path);
  if (const auto file = captured_file(path)) return {*file};
  throw ConfigError(
      fmt::format("{}: not the name of a captured gradient, such as gradient-000100.safetensors; `sotto codec measure "
                  "--codec .. --input {}` measures codecs on other files",
                  path, path));
}

}  // namespace

int run_analyze(std::span<const std::string> arguments) {
  std::optional<std::string> out, csv;
  bool spectra = true;
  std::int64_t repeats = 3, threads = 1;
  std::string folder;
  std::vector<std::string> said, values, merge_texts;
  Flags flags("analyze", "Analyses captured gradients: statistics of each tensor, and errors of codecs.", examples);
  flags.alias("out", "o");
  flags.add_positional("dir", folder, "folder of captured gradients, or one of its files", true);
  flags.add_list("codec", said, "what to measure on each gradient, each codec in quotes; memories are left out");
  flags.add_list("values", values, "values for {} in the codecs, as `sotto codec sweep` takes them");
  flags.add_list("merge", merge_texts,
                 "also time the addition of so many messages, for each of these numbers, such as 4 16 64 256 1024");
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("out", out, "write a page of plots and tables to this .html file; auto: none");
    v.option(
        "csv", csv,
        "write everything to tables in this folder: tensors.csv, ranks.csv, histograms.csv, spectra.csv, codecs.csv "
        "and merges.csv; auto: none");
    v.option("spectra", spectra, "compute singular values, which takes longest");
    v.option("repeats", repeats, "how often each codec is timed on a gradient; medians are used", {1, 10000});
    v.option("threads", threads, "threads that encode and decode", {1, 256});
  };
  if (!flags.read(arguments, visit)) return 0;
  if (out) require_ending("out", *out, ".html");
  if (csv) require_possible_folder(*csv);
  std::vector<StudiedCodec> studied = codecs_of(said, values);
  const std::vector<std::size_t> merges = numbers_of(merge_texts);
  refuse(!merges.empty() && studied.empty(), "--merge: say whose messages with --codec");
  const auto pool = std::make_shared<ThreadPool>(static_cast<int>(threads));
  std::vector<std::unique_ptr<Codec>> codecs;
  for (StudiedCodec& one : studied) one.text = codecs.emplace_back(measured_codec(one.text, pool))->traits().text;

  const std::vector<CapturedFile> files = files_of(folder);
  if (std::ranges::all_of(files, &CapturedFile::memory)) {
    throw FileError(
        fmt::format("{}: no captured gradients, such as gradient-000100.safetensors, are there; `sotto train --capture "
                    "every=100,dir={}` writes some",
                    folder, folder));
  }
  GradientAnalysis analysis;
  {
    Console console;  // a scope of its own: it ignores SIGPIPE, which printing the tables needs
    const AnalysisProgress progress = [&](std::string_view part) { console.progress(part); };
    analysis = analyse(files, spectra, progress);
    study(codecs, files, static_cast<int>(repeats), merges, progress, studied);
  }
  // Printed before files are written, so that a failure to write loses no results.
  fmt::print("{}\n{}", step_figures(analysis, most_steps).text(), tensor_figures(analysis).text());
  if (!studied.empty()) fmt::print("\n{}", codec_figures(studied).text());
  if (!merges.empty()) fmt::print("\n{}", merge_figures(studied).text());
  if (csv) write_csv(*csv, analysis, studied);
  if (out) write_file_atomic(*out, analysis_page(folder, analysis, studied));
  return 0;
}

}  // namespace sotto
