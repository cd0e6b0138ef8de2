#include "sotto/cli/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "sotto/aggregate/aggregator.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/cli/commands.h"
#include "sotto/cli/train_flags.h"
#include "sotto/cli/train_job.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/output.h"
#include "sotto/report/run_summary.h"
#include "sotto/report/text_table.h"
#include "sotto/task/table.h"
#include "sotto/train/run_folder.h"
#include "sotto/train/trainer.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
Every flag of `sotto train` but --codec and --algorithm applies to all of them; --topology and --mixing to the algorithms
that use them. The table shows means of rank 0; compute overlaps with the exchange unless --no-overlap is given, so the
parts of a step may add up to more than the step.

Examples:
  sotto compare --codecs none "qsgd(bits=4)" "ef | topk(0.01)" --ranks 4 --link 100mbit --max-steps 200
  sotto compare --algorithms sync push_sum d_psgd --topology ring --ranks 4
  sotto compare --codecs none int8 --model resnet18 --data cifar10 --data-dir DIR --markdown)text";

struct Row {
  std::string algorithm, codec, name{}, folder{}, error{};
  bool interrupted = false, diverged = false;
  std::optional<RunSummary> summary{};
};

std::string ratio(double dense, double sent) { return sent > 0 ? fmt::format("{:.1f}", dense / sent) : "-"; }

// Leaves out columns that are empty, or the same for all runs.
TextTable to_table(std::span<const Row> rows, std::string_view goal, const std::optional<std::string>& until) {
  const auto any = [&](auto holds) { return std::ranges::any_of(rows, holds); };
  const bool algorithms = any([&](const Row& row) { return row.algorithm != rows[0].algorithm; });
  const bool apart = any([](const Row& row) { return row.summary && !row.summary->rank_goals.empty(); });
  std::vector<std::string> head;
  if (algorithms) head.emplace_back("algorithm");
  head.insert(head.end(), {"codec", fmt::format("test {}", goal)});
  if (apart) head.insert(head.end(), {"of the ranks", "distance"});
  if (until) head.push_back(*until);
  head.insert(head.end(),
              {"sent a rank and step", "ratio", "ms a step", "compute", "encode", "network", "decode", "seconds"});
  TextTable table(head);
  if (algorithms) table.left(1);
  for (const Row& row : rows) {
    std::vector<std::string> cells;
    if (algorithms) cells.push_back(row.algorithm);
    cells.push_back(row.codec);
    if (!row.summary) {
      cells.emplace_back(row.interrupted ? "interrupted" : row.diverged ? "diverged" : "failed");
      table.add(cells);
      continue;
    }
    const RunSummary& s = *row.summary;
    const auto ms = [](double value) { return fmt::format("{:.1f}", value); };
    cells.push_back(s.tested_text());
    if (apart && s.rank_goals.empty()) {
      cells.insert(cells.end(), {"the same", "0"});
    } else if (apart) {
      const auto [least, most] = std::ranges::minmax(s.rank_goals);
      cells.push_back(fmt::format("{} to {}", s.goal.text(least), s.goal.with_unit(most)));
      cells.push_back(fmt::format("{:.3g}", s.consensus_distance));
    }
    if (until) cells.push_back(s.until ? s.until->text() : "");
    cells.insert(cells.end(), {bytes_text(s.bytes_per_step), ratio(s.dense_bytes_per_step, s.bytes_per_step),
                               ms(s.ms_per_step), ms(s.compute_ms), ms(s.encode_ms), ms(s.network_ms), ms(s.decode_ms),
                               fmt::format("{:.1f}", s.seconds)});
    table.add(std::move(cells));
  }
  return table;
}

std::string to_json(std::span<const Row> rows) {
  auto json = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    auto entry = row.summary ? nlohmann::ordered_json::parse(read_text(row.folder + "/summary.json"))
                             : nlohmann::ordered_json{{"algorithm", row.algorithm},
                                                      {"codec", row.codec},
                                                      {"error", row.interrupted ? "interrupted" : row.error}};
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

namespace {

// The same job with this algorithm and codec.
TrainOptions job_of(TrainOptions options, const Row& row) {
  options.algorithm = row.algorithm;
  options.codec = row.codec;
  options.train_dir = row.folder;
  options.master.clear();
  if (!read_algorithm("algorithms", row.algorithm).entry->uses_topology) {
    options.topology.reset();
    options.mixing.reset();
  }
  return options;
}

void tell_error(const Row& row, const std::string& error) {
  print_error(fmt::format("sotto: {}, {}: {}\n", row.algorithm, row.codec, error));
}

// Runs the job, fills in its result, and returns its status.
int run_job(const TrainOptions& options, const std::string& label, Row& row, RunWarnings& warnings) {
  LaunchSpec spec = train_job(job_of(options, row));
  spec.show_lines = false;
  Console console;
  console.label(label);
  const LaunchResult result = run_train_job(spec, row.folder, console);
  warnings.add(row.name, result.warnings);
  if (result.status == 0) {
    row.summary = read_summary(row.folder);
    return 0;
  }
  row.error = result.error;
  row.interrupted = is_stop_status(result.status);
  row.diverged = result.reason == Reason::not_finite;
  if (!result.error.empty()) tell_error(row, result.error);
  return result.status;
}

}  // namespace

int compare_runs(const TrainOptions& options, std::span<const std::string> algorithms,
                 std::span<const std::string> codecs, TableStyle style) {
  require_several("sotto compare", options);
  std::vector<Row> rows;
  const std::size_t count = algorithms.size() * codecs.size();
  const auto row_of = [&](std::size_t i) {
    Row row{.algorithm = algorithms[i / codecs.size()], .codec = codecs[i % codecs.size()]};
    row.name = algorithms.size() == 1 ? row.codec : row.algorithm + " " + row.codec;
    row.folder = fmt::format("{}/{}", options.train_dir, folder_name(i + 1, count, row.name));
    return row;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::string folder = row_of(i).folder;
    if (!path_exists(folder + "/steps.csv")) continue;
    throw ConfigError(
        fmt::format("{}: {} is a run already; choose another folder, or continue that run with "
                    "`sotto train`",
                    named("train-dir", options.train_dir), folder));
  }
  std::vector<std::string> refused(count);  // why a run cannot be trained; all are told before the first one begins
  for (std::size_t i = 0; i < count; ++i) {
    const Row row = row_of(i);
    try {
      require_trainable(read_choices(job_of(options, row)));
    } catch (const ConfigError& error) {
      refused[i] = error.text(flag_spelling);
      tell_error(row, refused[i]);
    }
  }
  int status = 0;
  RunWarnings warnings;
  for (std::size_t i = 0; i < count && !is_stop_status(status); ++i) {
    Row row = row_of(i);
    row.error = refused[i];
    const bool runs = row.error.empty();
    const int ended = runs ? run_job(options, fmt::format("{}/{} {}  ", i + 1, count, row.name), row, warnings) : 2;
    if (status == 0 || row.interrupted) status = ended;
    rows.push_back(std::move(row));
  }
  if (rows.back().interrupted) {
    print_error(fmt::format("sotto: interrupted in run {} of {}{}\n", rows.size(), count,
                            rows.size() < count ? "; those after it were not begun" : ""));
  }
  const std::string_view goal =
      read_choices(job_of(options, {.algorithm = algorithms[0], .codec = TrainOptions{}.codec})).task->goal;
  switch (style) {
    case TableStyle::plain: fmt::print("{}", to_table(rows, goal, options.until).plain()); break;
    case TableStyle::markdown: fmt::print("{}", to_table(rows, goal, options.until).markdown()); break;
    case TableStyle::json: fmt::print("{}", to_json(rows)); break;
  }
  warnings.print();
  return status;
}

namespace {

// Refuses what is wrong for all jobs, and sentences that are no codec. An option that is wrong for one job alone stands
// in the row of that job; the others are trained.
void check(const TrainOptions& options, std::span<const std::string> algorithms, std::span<const std::string> codecs) {
  for (const std::string& codec : codecs) read_recipe(parse_sentence("codecs", codec));
  bool graphs = false;
  for (const std::string& algorithm : algorithms) {
    TrainOptions job = job_of(options, {.algorithm = algorithm, .codec = TrainOptions{}.codec});
    graphs = graphs || read_choices(job).algorithm.entry->uses_topology;
  }
  if (!graphs && (options.topology || options.mixing)) {
    throw ConfigError("--topology and --mixing: no algorithm here exchanges with neighbours");
  }
}

}  // namespace

int run_compare(std::span<const std::string> arguments) {
  TrainOptions options;
  OwnOptions own;
  std::vector<std::string> algorithms, codecs;
  Flags flags("compare", "Trains the same job once with each of several codecs or algorithms, and prints one table.",
              examples);
  flags.alias("algorithms", "algorithm");  // the plural flags have the singular names of `sotto train`, too
  flags.alias("codecs", "codec");
  flags.add_list("algorithms", algorithms, "what to compare; each with every codec");
  flags.add_list("codecs", codecs, "what to compare; each a sentence in quotes");
  flags.add(own);
  add_train_flags(flags, options);
  if (!flags.parse(arguments)) return 0;
  assign_train_flags(flags, options);
  flags.assign(own);
  if (codecs.empty() && algorithms.empty()) {
    throw ConfigError(
        "sotto compare: say what to compare, as --codecs none \"ef | topk(0.01)\", or --algorithms sync push_sum");
  }
  if (codecs.empty()) codecs.push_back(options.codec);
  if (algorithms.empty()) algorithms.push_back(options.algorithm);
  if (own.markdown && own.json) throw ConfigError("--markdown: contradicts --json");
  if (options.ranks == 0) options.ranks = 1;
  if (options.resume) throw ConfigError("--resume: continue one run of a comparison with `sotto train`");
  check(options, algorithms, codecs);
  if (options.train_dir.empty()) options.train_dir = new_run_folder("compare");
  return compare_runs(options, algorithms, codecs,
                      own.json       ? TableStyle::json
                      : own.markdown ? TableStyle::markdown
                                     : TableStyle::plain);
}

}  // namespace sotto
