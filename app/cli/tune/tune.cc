#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "app/cli/commands.h"
#include "app/cli/report/report.h"
#include "app/cli/train/flags.h"
#include "app/cli/train/job.h"
#include "app/cli/tune/search.h"
#include "app/launch/hosts.h"
#include "app/report/curve.h"
#include "app/train/folder/folder_lock.h"
#include "app/train/folder/run_folder.h"
#include "app/train/options/choices.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/table.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
The other flags are flags of `sotto train`, and describe the training that is tuned. Its schedule runs over its --epochs
or --max-steps; a trial makes its first --steps. After Ctrl-C, the same command continues.

Values in --grid, for any option of `sotto train` except --train-dir, --resume, --max-steps and what runs cannot share
(--capture, --master, --tensorboard, --metrics-port):
  lr=0.1,0.05                        a list; commas inside parentheses and quotes belong to a value
  codec=none,"ef | topk(0.01)"       a list of codecs, in quotes because of their spaces
  lr=2^-7..2^-1                      every power in between
  lr=0.001..0.1/5                    five numbers in equal ratios
  batch-size=4..8                    every whole number
  lr=0.001..0.1                      any number in between, for --random: its logarithm is uniform
Seeds do not compete: with --seeds 3, or seed=1..3 among the values, each combination is trained with each seed, and
means are compared.

Examples:
  sotto tune --grid lr=2^-7..2^-1 --steps 100
  sotto tune --grid lr=2^-7..2^-1 codec="topk(0.01),topk(0.001)" --ranks 2 --seeds 3 --train-dir runs/tune
  sotto tune --grid lr=0.001..1.0 momentum=0,0.5,0.9 --random 30 --halving --model lenet --metric accuracy)text";

constexpr std::size_t most_trials = 10'000;
constexpr std::int64_t usual_eta = 3;

struct TuneOptions {
  std::optional<std::int64_t> random;
  std::optional<std::int64_t> seeds;
  std::int64_t steps = 100;
  bool halving = false;
  std::optional<std::int64_t> eta;
  std::optional<std::string> metric;
  std::optional<std::int64_t> jobs;
  bool json = false;
  void visit(OptionVisitor& v) {
    v.option("random", random, "number of combinations of values to draw, by the seed; auto: every combination",
             {1, static_cast<double>(most_trials)});
    v.option("seeds", seeds,
             "train each with this many seeds, --seed and the numbers after it, and compare means; auto: 1", {1, 1000});
    v.option("steps", steps, "steps of a trial; with `halving`, in the first round", {1, 1e9});
    v.option("halving", halving,
             "successive halving: the best third of the trials continues, for three times the steps");
    v.option("eta", eta, "one in `eta` trials continues, for `eta` times the steps; auto: 3", {2, 100});
    v.option("metric", metric,
             "the criterion: a metric of the task, on the test examples; auto: the training loss, averaged over the "
             "ranks and the last tenth of the steps. With `until`, trials that reach the target come first, in the "
             "order of their steps");
    v.option("jobs", jobs, "trials at a time; auto: as many as there are cores for their ranks and threads", {1, 4096});
    v.option("json", json, "print the trials as JSON, the best one first");
  }
};

// Options of `sotto train` that do not belong to the tuned training.
constexpr std::array not_tuned = std::to_array<std::string_view>(
    {"train-dir", "resume", "max-steps", "capture", "master", "tensorboard", "metrics-port"});

void check_names(const Flags& flags, std::span<const Dimension> space) {
  std::vector<std::string> names = names_of_options(TrainOptions{});
  std::erase_if(names, [](const std::string& name) { return std::ranges::find(not_tuned, name) != not_tuned.end(); });
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (const Dimension& dimension : space) {
    if (std::ranges::find(known, dimension.name) == known.end()) {
      throw ConfigError("--grid: " + unknown_name("option", dimension.name, known));
    }
    refuse(flags.given(dimension.name), "--{0}: it is in --grid, too; say {0} once", dimension.name);
  }
}

// Makes the trial of a point, and reads its options. ConfigError, which names the trial.
Trial make_trial(const TrainOptions& training, std::span<const Dimension> space, Point point, std::int64_t seed,
                 bool names_seed) {
  Trial trial{.point = std::move(point), .name = {}, .folder = {}, .options = training, .scores = {}, .error = {}};
  trial.name = text_of(space, trial.point);
  if (names_seed) trial.name += fmt::format("{}seed={}", trial.name.empty() ? "" : ", ", seed);
  for (std::size_t i = 0; i < space.size(); ++i) {
    const std::string where = fmt::format("--grid {}={}", space[i].name, trial.point[i]);
    trial.options.visit(*setter(space[i].name, trial.point[i], where));
  }
  trial.options.seed = seed;
  return trial;
}

// ConfigError for a trial that cannot be trained. Returns the metric that trials are judged by, if any.
std::optional<Metric> check(const Trial& trial, const TuneOptions& own, const TaskEntry*& task) {
  try {
    const Choices choices = read_choices(trial.options);
    if (task == nullptr) task = choices.task;
    refuse(task != choices.task, "its task is {}, and others have {}: their losses cannot be compared",
           choices.task->name, task->name);
    if (!own.metric) return std::nullopt;
    return metric_table(choices.task->metrics).require("metric", *own.metric);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("trial {}: {}", trial.name, error.text(flag_spelling)));
  }
}

std::size_t jobs_for(std::span<const Trial> trials, const std::optional<std::int64_t>& asked) {
  std::int64_t most = 1;  // threads of a trial
  for (const Trial& trial : trials) most = std::max(most, trial.options.ranks * trial.options.threads.value_or(1));
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const auto jobs = static_cast<std::size_t>(asked.value_or(std::max<std::int64_t>(1, cores / most)));
  return std::min(jobs, trials.size());
}

// Everything that decides which trials there are and how they are judged.
Settings plan_of(const TrainOptions& training, const TuneOptions& own, std::span<const std::string> grid) {
  Settings plan{{"grid", fmt::format("{}", fmt::join(grid, "; "))},
                {"random", format_optional(own.random)},
                {"steps", std::to_string(own.steps)},
                {"halving", own.halving ? std::to_string(own.eta.value_or(usual_eta)) : "off"},
                {"metric", format_optional(own.metric)}};
  if (own.seeds) plan.push_back({"seeds", format_optional(own.seeds)});
  for (Setting& setting : read_settings(training)) plan.push_back(std::move(setting));
  return plan;
}

// Run folders that a report can show: some trials may have failed before their first step.
std::vector<std::string> folders_of(std::span<const Trial> trials) {
  std::vector<std::string> folders;
  for (const Trial& trial : trials) {
    const auto steps = std::filesystem::path(trial.folder) / "steps.csv";
    if (path_exists(steps) && !read_step_rows(steps).rows.empty()) folders.push_back(trial.folder);
  }
  return folders;
}

// What varies between contenders, and the seeds of each.
struct Contest {
  std::vector<Dimension> space;
  std::vector<std::int64_t> seeds;
  bool names_seeds = false;  // names of trials include the seed
};

// Takes the seeds out of what varies: contenders are compared over all seeds.
Contest contest_of(std::vector<Dimension> space, const TuneOptions& own, std::int64_t first_seed) {
  Contest contest;
  const auto said = std::ranges::find(space, "seed", &Dimension::name);
  if (said == space.end()) {
    for (std::int64_t i = 0; i < own.seeds.value_or(1); ++i) contest.seeds.push_back(first_seed + i);
  } else {
    refuse(own.seeds.has_value(), "--seeds: seed is in --grid, too; say which seeds once");
    for (const Point& point : grid_of("grid", {&*said, 1}, most_trials)) {
      TrainOptions option;
      option.visit(*setter("seed", point[0], fmt::format("--grid seed={}", point[0])));
      contest.seeds.push_back(option.seed);
    }
    space.erase(said);
  }
  contest.names_seeds = contest.seeds.size() > 1 || space.empty();
  contest.space = std::move(space);
  return contest;
}

// Reads the training and what varies in it, and refuses what cannot be searched.
Contest read_search(const Flags& flags, std::span<const std::string> grid, const TuneOptions& own,
                    TrainOptions& training) {
  refuse(grid.empty(), "sotto tune: say what to try, as --grid lr=2^-7..2^-1");
  refuse(own.eta && !own.halving, "--eta: has no effect without --halving");
  refuse(training.resume, "--resume: the same command continues by itself, without it");
  refuse(own.halving && training.final_average,
         "--final-average: every round of --halving would end with it, and the next continue from the mean");
  require_several("sotto tune", training);
  if (training.ranks == 0) training.ranks = 1;
  std::vector<Dimension> space = read_space("grid", grid);
  check_names(flags, space);
  return contest_of(std::move(space), own, training.seed);
}

std::vector<Point> points_of(const Contest& contest, const TuneOptions& own, std::uint64_t seed) {
  const auto points = own.random ? draw_points("grid", contest.space, static_cast<std::size_t>(*own.random), seed)
                                 : grid_of("grid", contest.space, most_trials / contest.seeds.size());
  refuse(points.size() * contest.seeds.size() > most_trials,
         "--random {}: with {} seeds each these are more than {} trials", own.random.value_or(0), contest.seeds.size(),
         most_trials);
  return points;
}

std::vector<Round> rounds_of(std::size_t trials, const TuneOptions& own) {
  const auto steps = static_cast<std::uint64_t>(own.steps);
  if (!own.halving) return {{trials, steps}};
  const std::int64_t eta = own.eta.value_or(usual_eta);
  std::vector<Round> rounds = halving_rounds(trials, steps, static_cast<std::uint64_t>(eta));
  refuse(rounds.size() < 2,
         "--halving: one in {} of {} trials continues, and a second round needs two of them; try {} values "
         "or more, take a smaller --eta, or leave --halving out",
         eta, trials, 2 * eta);
  return rounds;
}

void say_plan(std::span<const Round> rounds, std::size_t seeds, std::size_t jobs, bool goes_on,
              const std::string& folder) {
  std::string plan = fmt::format("{} trials of {} steps", rounds[0].trials * seeds, rounds[0].steps);
  for (const Round& round : rounds.subspan(1)) plan += fmt::format(", {} of {}", round.trials * seeds, round.steps);
  if (seeds > 1) plan += fmt::format("; {} seeds of {}", seeds, rounds[0].trials);
  print_error(fmt::format("{}; {} at a time; {}{}\n", plan, jobs, goes_on ? "continuing in " : "", folder));
}

}  // namespace

int run_tune(std::span<const std::string> all) {
  std::vector<std::string> arguments(all.begin(), all.end());
  if (const auto dashes = std::ranges::find(arguments, "--"); dashes != arguments.end()) arguments.erase(dashes);
  TrainOptions training;
  TuneOptions own;
  std::vector<std::string> grid;
  Flags flags("tune", "Makes the first steps of a training with each of several options, and says which is best.",
              examples);
  flags.alias("train-dir", "o");
  flags.add_list("grid", grid, "what varies, as lr=2^-7..2^-1 codec=none,int8; see below");
  if (!read_with_train_flags(flags, arguments, own, training)) return 0;
  const Contest contest = read_search(flags, grid, own, training);
  const std::size_t seeds = contest.seeds.size();
  const std::vector<Point> points = points_of(contest, own, static_cast<std::uint64_t>(training.seed));
  const bool is_unnamed = training.train_dir.empty();
  const std::string folder = is_unnamed ? new_run_folder("tune") : std::exchange(training.train_dir, {});

  std::vector<Trial> trials;
  Scoring scoring;
  const TaskEntry* task = nullptr;
  for (const Point& point : points) {
    for (const std::int64_t seed : contest.seeds) {
      Trial& trial = trials.emplace_back(make_trial(training, contest.space, point, seed, contest.names_seeds));
      trial.folder = fmt::format("{}/{}", folder, folder_name(trials.size(), points.size() * seeds, trial.name));
      scoring.metric = check(trial, own, task);
    }
  }
  const std::vector<Round> rounds = rounds_of(points.size(), own);
  const std::size_t jobs = jobs_for(trials, own.jobs);

  make_folder(folder);
  const FolderLock lock(folder);
  refuse(!lock.held(), "--train-dir {}: another search is at work there", folder);
  remove_temporaries(folder);
  const TrialRecord record(folder, plan_of(training, own, grid), contest.space);
  const bool goes_on = record.take_up(trials);
  record.write(trials);
  say_plan(rounds, seeds, jobs, goes_on, folder);

  Search search(trials, seeds, rounds, scoring, record, jobs);
  const int status = search.run();
  const std::vector<Contender> order = search.order();
  const Contender& best = order.front();
  const bool has_best = best.rounds() > 0 && best.is_sound();
  const auto open = std::ranges::count_if(trials, [](const Trial& t) { return t.scores.empty() && t.error.empty(); });
  if (own.json) {
    fmt::print("{}", to_json(order, contest.space));
  } else if (open < static_cast<std::ptrdiff_t>(trials.size())) {
    fmt::print("{}", to_table(order, contest.space, scoring, task->goal).plain());
    if (has_best) fmt::print("\n{}", best_text(order, contest.space, scoring));
  }
  search.warnings().print();
  if (is_stop_status(status)) {
    std::string again = "sotto tune";
    for (const std::string& argument : arguments) again += " " + quoted(argument);
    if (is_unnamed) again += " --train-dir " + quoted(folder);
    print_error(fmt::format("sotto: interrupted, with {} of {} trials not done; to continue: {}\n", open, trials.size(),
                            again));
    return status;
  }
  if (const auto folders = folders_of(trials); !folders.empty()) {
    const std::string line = fmt::format("report: {}\n", write_report(folders, {}, folder + "/report.html"));
    if (own.json) {
      print_error(line);
    } else {
      fmt::print("{}", line);
    }
  }
  if (has_best) return status;
  print_error(fmt::format("sotto: no trial came to an end: {}: {}\n", best.trials().front().name, best.error()));
  return std::max(1, status);
}

}  // namespace sotto
