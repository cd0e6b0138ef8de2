#include "sotto/cli/compare.h"

#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>

#include "sotto/cli/commands.h"
#include "sotto/cli/launcher.h"
#include "sotto/cli/run_summary.h"
#include "sotto/cli/text_table.h"
#include "sotto/cli/train_flags.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/train/checkpoint.h"
#include "sotto/train/run_folder.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
Every flag of `sotto train` but --codec applies to all of them. The table shows medians of rank 0; compute overlaps with
the exchange unless --no-overlap is given, so the parts of a step may add up to more than the step.

Examples:
  sotto compare --codecs none "qsgd(bits=4)" "ef | topk(0.01)" --ranks 4 --link 100mbit --max-steps 200
  sotto compare --codecs none int8 --model resnet18 --data cifar10 --data-dir DIR --markdown)text";

struct Row {
  std::string codec, folder, error;
  std::optional<RunSummary> summary;
};

// The sentence as a part of a folder's name: "ef | topk(0.01)" is "ef-topk-0.01".
std::string folder_name(std::size_t number, std::string_view sentence) {
  constexpr std::size_t longest = 60;
  std::string name;
  for (const char c : sentence) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (plain) name += c;
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  name = name.substr(0, longest);
  while (name.ends_with('-')) name.pop_back();
  return fmt::format("{:02}-{}", number, name);
}

std::string ratio(double dense, double sent) { return sent > 0 ? fmt::format("{:.1f}", dense / sent) : "-"; }

TextTable to_table(std::span<const Row> rows) {
  TextTable table({"codec", "test accuracy", "sent a rank and step", "ratio", "ms a step", "compute", "encode",
                   "network", "decode", "seconds"});
  for (const Row& row : rows) {
    if (!row.summary) {
      table.add({row.codec, "failed"});
      continue;
    }
    const RunSummary& s = *row.summary;
    const auto ms = [](double value) { return fmt::format("{:.1f}", value); };
    table.add({row.codec, fmt::format("{:.2f} %", 100 * s.test_accuracy), bytes_text(s.bytes_per_step),
               ratio(s.dense_bytes_per_step, s.bytes_per_step), ms(s.ms_per_step), ms(s.compute_ms), ms(s.encode_ms),
               ms(s.network_ms), ms(s.decode_ms), fmt::format("{:.1f}", s.seconds)});
  }
  return table;
}

std::string to_json(std::span<const Row> rows) {
  auto json = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    auto entry = row.summary ? nlohmann::ordered_json::parse(read_text(row.folder + "/summary.json"))
                             : nlohmann::ordered_json{{"codec", row.codec}, {"error", row.error}};
    entry["train_dir"] = row.folder;
    json.push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

struct OwnOptions {
  bool markdown = false;
  bool json = false;
  void visit(OptionVisitor& v) {
    v.option("markdown", markdown, "print the table as markdown");
    v.option("json", json, "print the summaries as JSON");
  }
};

}  // namespace

int compare_codecs(const TrainOptions& options, std::span<const std::string> codecs, TableStyle style) {
  if (!options.capture.empty()) {
    throw ConfigError("--capture: every codec would write the same files; capture with `sotto train`");
  }
  std::vector<Row> rows;
  int status = 0;
  for (std::size_t i = 0; i < codecs.size() && status != 128 + SIGINT && status != 128 + SIGTERM; ++i) {
    Row row{codecs[i], fmt::format("{}/{}", options.train_dir, folder_name(i + 1, codecs[i])), "", {}};
    TrainOptions job = options;
    job.codec = row.codec;
    job.train_dir = row.folder;
    job.master.clear();
    LaunchSpec spec{.arguments = {"train"},
                    .ranks = options.ranks,
                    .master = options.master,
                    .threads = options.threads,
                    .show_lines = false};
    for (std::string& flag : to_flags(job)) spec.arguments.push_back(std::move(flag));
    Console console;
    console.label(fmt::format("{}/{} {}  ", i + 1, codecs.size(), row.codec));
    const LaunchResult result = launch(spec, console);
    if (result.status == 0) {
      row.summary = read_summary(row.folder);
    } else {
      checkpoint::remove_abandoned(row.folder);
      row.error = result.error;
      if (!result.error.empty()) fmt::print(stderr, "sotto: {}: {}\n", row.codec, result.error);
      if (status == 0 || result.error.empty()) status = result.status;
    }
    rows.push_back(std::move(row));
  }
  switch (style) {
    case TableStyle::plain: fmt::print("{}", to_table(rows).plain()); break;
    case TableStyle::markdown: fmt::print("{}", to_table(rows).markdown()); break;
    case TableStyle::json: fmt::print("{}", to_json(rows)); break;
  }
  return status;
}

int run_compare(std::span<const std::string> arguments) {
  TrainOptions options;
  OwnOptions own;
  std::vector<std::string> codecs;
  Flags flags("compare", "Trains the same job once with each of several codecs, and prints one table.", examples);
  flags.alias("codecs", "codec");  // stands for the single one of `sotto train`, too
  flags.add_list("codecs", codecs, "what to compare; each a sentence in quotes");
  flags.add(own);
  add_train_flags(flags, options);
  if (!flags.parse(arguments)) return 0;
  assign_train_flags(flags, options);
  flags.assign(own);
  if (codecs.empty()) throw ConfigError("sotto compare: say what to compare, as --codecs none \"ef | topk(0.01)\"");
  if (own.markdown && own.json) throw ConfigError("--markdown: contradicts --json");
  if (options.ranks == 0) options.ranks = 1;
  if (options.resume) throw ConfigError("--resume: continue one run of a comparison with `sotto train`");
  TrainOptions checked = options;        // each job fills in by itself what depends on its codec
  checked.codec = TrainOptions{}.codec;  // a bad one has a row that says so
  resolve(checked);
  if (options.train_dir.empty()) options.train_dir = new_run_folder("compare");
  return compare_codecs(options, codecs,
                        own.json       ? TableStyle::json
                        : own.markdown ? TableStyle::markdown
                                       : TableStyle::plain);
}

}  // namespace sotto
