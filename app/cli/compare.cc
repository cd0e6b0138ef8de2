#include <fmt/format.h>

#include "app/cli/commands.h"
#include "app/cli/compare_table.h"
#include "app/cli/train/flags.h"
#include "app/cli/train/job.h"
#include "app/launch/signals.h"
#include "app/report/run_summary.h"
#include "app/task/table.h"
#include "app/train/folder/run_folder.h"
#include "app/train/trainer.h"
#include "sotto/aggregate/aggregator.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/text.h"

// `sotto compare`, and `sotto demo`: a comparison with a training and codecs of its choice.

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
All flags of `sotto train` except --codec and --algorithm apply to every run; --topology and --mixing only to algorithms
that use them. The table shows means of rank 0; compute overlaps with the exchange unless --no-overlap is given, so the
parts of a step may add up to more than the step.

Examples:
  sotto compare --codecs none "qsgd(bits=4)" "ef | topk(0.01)" --ranks 4 --link 100mbit --max-steps 200
  sotto compare --algorithms sync push_sum d_psgd --topology ring --ranks 4
  sotto compare --codecs none int8 --seeds 3 --model resnet18 --data cifar10 --data-dir DIR --markdown)text";

struct OwnOptions {
  std::int64_t seeds = 1;
  bool markdown = false;
  bool json = false;
  void visit(OptionVisitor& v) {
    v.option("seeds", seeds,
             "train each with this many seeds, --seed and the numbers after it; the table has means and deviations",
             {1, 1000});
    v.option("markdown", markdown, "print the table as markdown");
    v.option("json", json, "print the summaries as JSON");
  }
};

// The same job with this algorithm and codec.
TrainOptions job_of(TrainOptions options, const std::string& algorithm, const std::string& codec) {
  options.algorithm = algorithm;
  options.codec = codec;
  options.master.clear();
  if (!read_algorithm("algorithms", algorithm).entry->graph.used) {
    options.topology.reset();
    options.mixing.reset();
  }
  return options;
}

void tell_error(const std::string& run, const std::string& error) {
  print_error(fmt::format("sotto: {}: {}\n", run, error));
}

// The runs of a comparison, in the order in which they are made.
std::vector<ComparedRow> rows_of(const TrainOptions& options, std::span<const std::string> algorithms,
                                 std::span<const std::string> codecs, std::int64_t seeds) {
  const std::size_t count = algorithms.size() * codecs.size() * static_cast<std::size_t>(seeds);
  std::vector<ComparedRow> rows;
  std::size_t number = 0;
  for (const std::string& algorithm : algorithms) {
    for (const std::string& codec : codecs) {
      ComparedRow& row = rows.emplace_back(ComparedRow{.algorithm = algorithm, .codec = codec});
      for (std::int64_t seed = options.seed; seed < options.seed + seeds; ++seed) {
        std::string name = algorithms.size() == 1 ? codec : fmt::format("{} {}", algorithm, codec);
        if (seeds > 1) name += fmt::format(", seed {}", seed);
        const std::string folder = fmt::format("{}/{}", options.train_dir, folder_name(++number, count, name));
        row.runs.push_back({.seed = seed, .name = std::move(name), .folder = folder});
      }
    }
  }
  return rows;
}

// Runs the job, fills in its result, and returns its status, or the status of a signal.
int run_job(TrainOptions options, const std::string& label, ComparedRun& run, RunWarnings& warnings) {
  options.seed = run.seed;
  options.train_dir = run.folder;
  const LaunchResult result = run_labelled(options, label);
  warnings.add(run.name, result.warnings);
  const int status = result.signal == 0 ? result.status : 128 + result.signal;
  if (result.status == 0) {
    run.summary = read_summary(run.folder);
    return status;
  }
  run.error = result.error;
  run.interrupted = is_stop_status(status);
  run.diverged = result.reason == Reason::not_finite;
  if (!result.error.empty()) tell_error(run.name, result.error);
  return status;
}

// Why the job cannot be trained, or empty.
std::string refusal_of(const TrainOptions& job) {
  try {
    require_trainable(read_choices(job));
    return "";
  } catch (const ConfigError& error) {
    return error.text(flag_spelling);
  }
}

enum class TableStyle { plain, markdown, json };

// Trains the same job with each algorithm and codec, once for each of `seeds` seeds from options.seed on. Each run has
// a new folder under options.train_dir. Prints one table, of means over the seeds. The row of a job that failed or was
// interrupted says so. Returns 0, or the status of the first job that failed, or of a signal, which ends all jobs.
// Algorithms that use no topology ignore options.topology.
int compare_runs(const TrainOptions& options, std::span<const std::string> algorithms,
                 std::span<const std::string> codecs, TableStyle style, std::int64_t seeds = 1) {
  require_several("sotto compare", options);
  std::vector<ComparedRow> rows = rows_of(options, algorithms, codecs, seeds);
  const std::size_t count = rows.size() * static_cast<std::size_t>(seeds);
  for (const ComparedRow& row : rows) {
    for (const ComparedRun& run : row.runs) {
      refuse(path_exists(run.folder + "/steps.csv"),
             "{}: {} is a run already; choose another folder, or continue that run with `sotto train`",
             named("train-dir", options.train_dir), run.folder);
    }
  }
  std::vector<std::string> refused(rows.size());  // why a row cannot be trained; told for all before the first run
  for (std::size_t r = 0; r < rows.size() && !Signals::pending(); ++r) {
    refused[r] = refusal_of(job_of(options, rows[r].algorithm, rows[r].codec));
    if (!refused[r].empty()) tell_error(fmt::format("{}, {}", rows[r].algorithm, rows[r].codec), refused[r]);
  }
  const Signals signals;  // a signal between two runs also ends the comparison with its table
  int status = 0;
  RunWarnings warnings;
  std::size_t begun = 0;
  for (std::size_t r = 0; r < rows.size() && !is_stop_status(status); ++r) {
    const TrainOptions job = job_of(options, rows[r].algorithm, rows[r].codec);
    for (std::size_t s = 0; s < rows[r].runs.size() && !is_stop_status(status); ++s) {
      ComparedRun& run = rows[r].runs[s];
      run.error = refused[r];
      const std::string label = fmt::format("{}/{} {}  ", ++begun, count, run.name);
      const int ended = run.error.empty() ? run_job(job, label, run, warnings) : 2;
      const bool at_its_end = run.summary.has_value();  // whether the run came to its end before the signal
      const bool stops = is_stop_status(ended) && !(at_its_end && begun == count);
      if (stops || (status == 0 && !at_its_end)) status = ended;
      if (!stops) continue;
      print_error(fmt::format("sotto: interrupted {} run {} of {}{}\n", at_its_end ? "after" : "in", begun, count,
                              begun < count ? "; those after it were not begun" : ""));
      rows[r].runs.resize(s + 1);
      rows.resize(r + 1);
      break;
    }
  }
  const std::string_view goal = read_choices(job_of(options, algorithms[0], TrainOptions{}.codec)).task->goal;
  switch (style) {
    case TableStyle::plain: fmt::print("{}", to_table(rows, goal, options.until).plain()); break;
    case TableStyle::markdown: fmt::print("{}", to_table(rows, goal, options.until).markdown()); break;
    case TableStyle::json: fmt::print("{}", to_json(rows)); break;
  }
  warnings.print();
  return status;
}

// ConfigError for options that are wrong for all jobs, and for codecs that cannot be parsed. If an option is wrong for
// one job alone, the job's row says so, and the others are trained.
void check(const TrainOptions& options, std::span<const std::string> algorithms, std::span<const std::string> codecs) {
  for (const std::string& codec : codecs) read_recipe(parse_expression("codecs", codec));
  bool graphs = false;
  for (const std::string& algorithm : algorithms) {
    const TrainOptions job = job_of(options, algorithm, TrainOptions{}.codec);
    graphs = graphs || read_choices(job).algorithm.entry->graph.used;
  }
  refuse(!graphs && (options.topology || options.mixing),
         "--topology and --mixing: no algorithm here exchanges with neighbours");
}

constexpr std::string_view demo_examples = R"text(
Takes every flag of `sotto train` and of `sotto compare`, to change any part of it.

Examples:
  sotto demo --link 10mbit --max-steps 60
  sotto demo --codecs none "ef | topk(0.001)" --ranks 2)text";

constexpr std::string_view explanation = R"text(
Ratio: bytes of a dense all-reduce, divided by the bytes sent. Times are means of rank 0 in ms; compute overlaps with
the exchange, so the parts of a step may add up to more than the step. Over a slow link, the messages determine how long
a step takes. qsgd(4) rounds values to 4 bits, at random, so that the mean is right; rans packs them tighter. power(4)
(PowerSGD) sends two narrow factors of each matrix. topk(0.2) sends the largest fifth of the values; error feedback (ef)
keeps the others, and sends them later. A longer training: sotto demo --train-size 0 --epochs 3 --max-steps auto
)text";

TrainOptions demo_options() {
  TrainOptions options;
  options.model = "lenet";
  options.data.data = "digits";
  options.data.train_size = 12800;
  options.data.test_size = 2000;
  options.ranks = 4;
  options.batch_size = 64;
  options.epochs = 2;
  options.max_steps = 100;
  options.link = "100mbit";
  return options;
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
  flags.add_list("codecs", codecs, "what to compare, each codec in quotes");
  if (!read_with_train_flags(flags, arguments, own, options)) return 0;
  refuse(codecs.empty() && algorithms.empty(),
         "sotto compare: say what to compare, as --codecs none \"ef | topk(0.01)\", or --algorithms sync push_sum");
  if (codecs.empty()) codecs.push_back(options.codec);
  if (algorithms.empty()) algorithms.push_back(options.algorithm);
  refuse(own.markdown && own.json, "--markdown: contradicts --json");
  if (options.ranks == 0) options.ranks = 1;
  refuse(options.resume, "--resume: continue one run of a comparison with `sotto train`");
  check(options, algorithms, codecs);
  if (options.train_dir.empty()) options.train_dir = new_run_folder("compare");
  return compare_runs(options, algorithms, codecs,
                      own.json       ? TableStyle::json
                      : own.markdown ? TableStyle::markdown
                                     : TableStyle::plain,
                      own.seeds);
}

int run_demo(std::span<const std::string> arguments) {
  TrainOptions options = demo_options();
  std::vector<std::string> codecs{"none", "qsgd(4) | rans", "power(4)", "ef | topk(0.2) | qsgd(4)"};
  Flags flags("demo", "Trains LeNet on four ranks over an emulated 100 Mbit/s link, dense and with three codecs.",
              demo_examples);
  flags.alias("codecs", "codec");
  flags.add_list("codecs", codecs, "what to compare, each codec in quotes");
  add_train_flags(flags, options);
  if (!flags.parse(arguments)) return 0;
  const Signals signals;  // Ctrl-C ends the comparison with the table of the runs so far
  const std::int64_t ranks = options.ranks;
  assign_train_flags(flags, options);
  if (options.ranks == 0) options.ranks = ranks;
  refuse(options.resume, "--resume: a demo always starts from the beginning");
  TrainOptions checked = options;        // each job fills in the options that depend on its codec
  checked.codec = TrainOptions{}.codec;  // a bad codec is reported in its row
  checked = read_choices(checked).options;
  if (options.train_dir.empty()) options.train_dir = new_run_folder("demo");

  const std::string length =
      options.max_steps ? fmt::format("{} steps", *options.max_steps) : fmt::format("{} epochs", options.epochs);
  fmt::print("{} on `{}`, {}, {} processes that meet over TCP{}, {} images a rank and step.\n", checked.model,
             checked.data.data, length, options.ranks,
             options.link ? fmt::format(", each with a link of {}", *options.link) : "", options.batch_size);
  fmt::print("The same training with each of these, and the same seed: {}.\n", fmt::join(codecs, ";  "));
  fmt::print("`none` sends whole gradients, any other codec a compressed form of them. Run folders: {}\n\n",
             options.train_dir);
  flush_output();
  const int status = compare_runs(options, {&options.algorithm, 1}, codecs, TableStyle::plain);
  if (status != 0) return status;
  fmt::print("{}", explanation);
  return 0;
}

}  // namespace sotto
