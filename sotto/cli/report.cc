#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "sotto/cli/commands.h"
#include "sotto/cli/flags.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/report/page.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
The page is one file that loads nothing. Runs that differ in nothing but their seed are one colour, with mean and spread.

Examples:
  sotto report runs/none runs/topk -o report.html
  sotto report runs/* --target accuracy=0.97 --out report.html)text";

struct OwnOptions {
  std::string out = "report.html";
  std::optional<std::string> target;
  void visit(OptionVisitor& v) {
    v.option("out", out, "where the page goes");
    v.option("target", target,
             "shows the steps, time and bytes that each run took to it, as accuracy=0.97; auto: none");
  }
};

// As a shell reads it.
std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
  };
  if (std::ranges::all_of(word, plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// All options of a run by name.
Settings read_settings(const TrainOptions& options) {
  Settings settings;
  const std::vector<std::string> flags = to_flags(options);  // "--lr=0.1", or "--link", ""
  for (const std::string& flag : flags) {
    if (!flag.starts_with("--")) continue;
    const std::size_t equals = flag.find('=');
    settings.push_back({flag.substr(2, equals == std::string::npos ? equals : equals - 2),
                        equals == std::string::npos ? "" : flag.substr(equals + 1)});
  }
  return settings_of(std::move(settings));
}

// The line that repeats a run: all settings that are not the usual ones.
std::string command_of(const Settings& settings) {
  const Settings usual = read_settings(TrainOptions{});
  std::string line = "sotto train";
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (settings[i] == usual[i]) continue;
    line += " " + quoted(fmt::format("--{}={}", settings[i].name, settings[i].value));
  }
  return line;
}

Report read_report(std::span<const std::string> folders, const std::optional<std::string>& target) {
  Report report;
  std::vector<std::filesystem::path> known;
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    report.runs.push_back(read_recorded_run(folder));
    const RecordedRun& run = report.runs.back();
    const auto same = [&](const auto& other) { return std::filesystem::equivalent(other, folder); };
    if (std::ranges::any_of(known, same)) throw ConfigError(fmt::format("{}: the run is given twice", folder));
    known.emplace_back(folder);
    report.settings.push_back(read_settings(run.options));
    report.commands.push_back(command_of(report.settings.back()));
    names.push_back(run.name);
    if (target) report.target = read_target("target", *target, run.task->metrics);
  }
  report.groups = group_by_seed(report.settings, names);
  return report;
}

}  // namespace

int run_report(std::span<const std::string> arguments) {
  OwnOptions own;
  std::vector<std::string> folders;
  Flags flags("report", "Shows runs in one HTML file: curves, costs, differences.", examples);
  flags.alias("out", "o");
  flags.add_positionals("run", folders, "run folders");
  flags.add(own);
  if (!flags.parse(arguments)) return 0;
  flags.assign(own);
  const Report report = read_report(folders, own.target);
  const std::string page = to_page(report);
  write_file_atomic(own.out, page);
  fmt::print("{} runs in {} ({} KB)\n", report.runs.size(), own.out, (page.size() + 999) / 1000);
  return 0;
}

}  // namespace sotto
