#include "app/cli/train/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "app/cli/train/flags.h"
#include "app/cli/train/ranks.h"
#include "app/report/curve.h"
#include "app/report/run_group.h"
#include "app/report/run_summary.h"
#include "app/train/folder/checkpoint.h"
#include "app/train/folder/run_folder.h"
#include "app/train/record/membership_csv.h"
#include "sotto/aggregate/auto_codec.h"
#include "sotto/comm/transport.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace fs = std::filesystem;
namespace {

// Options that change no bit of the trained model.
constexpr std::array<std::string_view, 14> free_options{
    "replay",      "train-dir",   "data-dir",       "backend",        "checkpoint-every", "checkpoint-minutes",
    "keep-best",   "csv-format",  "check-replicas", "measure-errors", "csv-tag",          "capture",
    "tensorboard", "metrics-port"};

// The records of a run since its last start.
struct Record {
  std::vector<GenerationRow> generations;
  std::uint64_t end = 0;   // the number of steps that it has made
  bool whole = false;      // whether the run came to its end by itself
  std::string parameters;  // the hash of the parameters at the end; empty: not known
  std::uint64_t first() const { return generations.front().step; }
};

void require_free(const Flags& flags, std::span<const std::string> own) {
  const std::vector<std::string> of_transport = names_of_options(TransportOptions());
  for (const auto& names : {names_of_options(TrainOptions{}), names_of_options(TrainFlagOptions{}),
                            std::vector<std::string>(own.begin(), own.end())}) {
    for (const std::string& name : names) {
      const bool is_free = std::ranges::find(of_transport, name) != of_transport.end() ||
                           std::ranges::find(free_options, name) != free_options.end();
      refuse(flags.given(name) && !is_free, "{}: {} repeats a run with the options that it had; leave it out",
             named(name), named("replay"));
    }
  }
}

// The options of the run, without those of files outside its folder and of the machines on which it ran.
TrainOptions options_of(const fs::path& run, const Flags& flags) {
  TrainOptions options;
  from_toml((run / "config.toml").string(), options);
  options.capture.reset();
  options.tensorboard.reset();
  options.metrics_port.reset();
  options.transport = {};
  if (path_exists(run / "link.toml")) options.link = (run / "link.toml").string();
  flags.assign(options);
  return options;
}

// Refuses runs that are not deterministic.
void require_same_bits(const std::string& said, const Choices& choices) {
  refuse(has_own_speed(choices.algorithm, static_cast<int>(choices.options.ranks)),
         "{}: ranks of `{}` go at their own speed, and no two runs are the same", said, choices.options.algorithm);
  refuse(choices.algorithm.entry->with(choices.algorithm.options).varies,
         "{}: `{}` depends on when messages arrive, and no two runs are the same", said, choices.options.algorithm);
  refuse(choices.recipe.by_itself() && choices.recipe.aggregator.entry->name == auto_codec_name,
         "{}: `{}` chooses by the time that steps take, and no two runs are the same", said,
         choices.recipe.source_text);
}

// The steps that all ranks of the last generation have made, according to their rows. Newcomers that have no row yet do
// not count: they take part before they train.
std::uint64_t steps_made(const GenerationRow& last, std::span<const StepFigures> rows) {
  std::vector<std::uint64_t> made(last.ids.size(), last.step);
  for (const StepFigures& row : rows) {
    if (row.rank < made.size()) made[row.rank] = std::max(made[row.rank], row.step + 1);
  }
  for (std::size_t rank = 0; rank < made.size(); ++rank) {
    const bool is_new = std::ranges::binary_search(last.newcomers, last.ids[rank]);
    if (is_new && made[rank] == last.step) made[rank] = std::ranges::max(made);
  }
  return std::ranges::min(made);
}

Record record_of(const std::string& said, const fs::path& run, std::int64_t most_ranks) {
  Record record;
  record.generations = read_generations(run);
  const auto fail = [&](const GenerationRow& row, const std::string& why) {
    throw ConfigError(fmt::format("{}: {}:{}: {}", said, (run / "membership.csv").string(), row.line, why));
  };
  for (const GenerationRow& row : record.generations) {
    if (row.ids.size() <= static_cast<std::size_t>(most_ranks)) continue;
    fail(row, fmt::format("{} members; config.toml says {} ranks", row.ids.size(), most_ranks));
  }
  const GenerationRow& last = record.generations.back();
  const StepRows steps = read_step_rows(run / "steps.csv");
  if (path_exists(run / "summary.json")) {
    const RunSummary summary = read_summary(run);
    const bool of_this_start =
        std::ranges::find(record.generations, summary.first_step, &GenerationRow::step) != record.generations.end();
    if (of_this_start && !is_outdated(summary, steps.rows) && summary.steps > record.first()) {
      record.end = summary.steps;
      record.whole = summary.signal == 0;
      record.parameters = summary.parameters_sha256;
      if (last.step >= record.end)
        fail(last, fmt::format("step {} is not before the end, step {}", last.step, record.end));
    }
  }
  if (record.end == 0) record.end = steps_made(last, steps.rows);
  while (record.generations.size() > 1 && record.generations.back().step >= record.end) record.generations.pop_back();
  refuse(record.end <= record.first(), "{}: no step is recorded since it began at step {}", said, record.first());
  return record;
}

// The number of compute threads of every rank.
std::int64_t threads_of(const std::string& said, const Record& record) {
  std::set<int> threads;
  for (const GenerationRow& row : record.generations) threads.insert(row.threads.begin(), row.threads.end());
  if (threads.size() == 1) return *threads.begin();
  throw ConfigError(fmt::format("{}: its ranks computed with different numbers of threads ({}), on which bits depend",
                                said, fmt::join(threads, ", ")));
}

std::vector<PlannedGroup> groups_of(const Record& record) {
  std::vector<PlannedGroup> groups;
  for (const GenerationRow& row : record.generations) {
    if (!groups.empty()) groups.back().end = row.step;
    groups.push_back({.ids = row.ids, .newcomers = row.newcomers});
  }
  return groups;
}

// Copies the checkpoint with which the run began, and its tables, to which the replay appends.
void begin_with_checkpoint(const std::string& said, const fs::path& run, const fs::path& train_dir,
                           std::uint64_t step) {
  const fs::path from = checkpoint::folder(run, step);
  refuse(!path_exists(from), "{}: it continued from {}, which no longer exists", said, from.string());
  make_folder(train_dir);
  try {
    fs::copy(from, checkpoint::folder(train_dir, step), fs::copy_options::recursive);
    for (const char* table : {"steps.csv", "evaluations.csv"}) fs::copy_file(run / table, train_dir / table);
  } catch (const fs::filesystem_error& error) {
    throw FileError(error.what());
  }
}

// Says whether the replay ended like the run. Returns the exit status.
int compare(const std::string& run, const std::string& train_dir, const Record& record, const TaskEntry& task,
            Console& console) {
  const RunSummary summary = read_summary(train_dir);
  const std::string difference = first_difference(run, train_dir, record.first(), record.end, task.metrics);
  const bool known = !record.parameters.empty();
  const bool same = summary.steps == record.end && (!known || summary.parameters_sha256 == record.parameters);
  if (same && difference.empty()) {
    console.line(stdout,
                 fmt::format("the replay is like {} up to step {}: {}", run, record.end,
                             known ? "its parameters are the same to the bit, " + record.parameters
                                   : "all losses and metrics are the same; it holds no parameters of that step"));
    return 0;
  }
  console.line(
      stderr, fmt::format("sotto: the replay is not like {}, whose {} were {}: {}", run, known ? "parameters" : "steps",
                          known ? record.parameters : std::to_string(record.end),
                          difference.empty() ? "losses and metrics are the same" : "first in " + difference));
  return 1;
}

}  // namespace

int run_replay(const std::string& run, const Flags& flags, std::span<const std::string> own) {
  require_free(flags, own);
  const std::string said = named("replay", run);
  refuse(run.empty(), "{}: names no folder", said);
  if (const World world = find_world("", false); world.starter != "single") {
    throw ConfigError(
        fmt::format("{}: {} started this rank; a replay starts all its ranks itself", said, world.starter));
  }
  if (!path_exists(fs::path(run) / "config.toml")) {
    throw ConfigError(said + ": there is no config.toml; this is not the folder of a run");
  }
  TrainOptions options = options_of(run, flags);
  Choices choices = read_choices(options);
  require_same_bits(said, choices);
  const Record record = record_of(said, run, options.ranks);
  const bool changes =
      record.generations.size() > 1 || record.generations.front().ids.size() != static_cast<std::size_t>(options.ranks);
  if (changes) require_elastic("replay", choices, options.ranks, options.ranks);
  const std::int64_t threads = threads_of(said, record);
  World wanted;
  wanted.size = wanted.local_size = static_cast<int>(options.ranks);
  choices.transport->require(wanted);

  if (options.train_dir.empty()) options.train_dir = new_run_folder(choices.options.model);
  const fs::path train_dir(options.train_dir);
  if (path_exists(train_dir / "steps.csv")) {
    throw ConfigError(named("train-dir", options.train_dir) + ": already holds a run; choose another folder");
  }
  if (record.first() > 0) begin_with_checkpoint(said, run, train_dir, record.first());
  options.resume = record.first() > 0;
  if (!record.whole) {
    options.max_steps = static_cast<std::int64_t>(record.end);
    options.final_average = false;
  }
  Console console;
  LaunchSpec spec = train_job(options);
  spec.threads = threads;
  spec.patience = std::chrono::seconds(2 * options.deadline);
  if (changes) spec.groups = groups_of(record);
  const LaunchResult result = run_train_job(spec, options.train_dir, console);
  if (!result.error.empty()) console.line(stderr, "sotto: " + spelled(result.error, flag_spelling));
  const bool diverged = result.reason == Reason::not_finite && path_exists(train_dir / "summary.json");
  if (result.status != 0 && !diverged) return result.status;
  print_result(options.train_dir, console);
  return compare(run, options.train_dir, record, *choices.task, console);
}

}  // namespace sotto
