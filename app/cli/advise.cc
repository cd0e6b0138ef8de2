#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "adapters/c10d/compute_threads.h"
#include "app/advise/advisor.h"
#include "app/cli/commands.h"
#include "app/cli/train/flags.h"
#include "app/cli/train/job.h"
#include "app/cli/tune/trials.h"
#include "app/launch/signals.h"
#include "app/report/recorded_run.h"
#include "app/report/text_table.h"
#include "app/train/folder/run_folder.h"
#include "app/train/options/optimiser.h"
#include "sotto/aggregate/auto_codec.h"
#include "sotto/core/error.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
Measures in this process what a rank computes in a step, and what each codec makes of its gradients. Ranks are threads
that work one at a time and average with the code of a run. The step is then replayed over the link, with exchanges
during backward as in `sotto train`. Each host is taken to be like this one, with one rank that has all cores, or with
--ranks-per-host ranks. The flags of `sotto train` describe the model, its data and the exchange. Codecs whose loss is
not known come last; --check 200 trains for 200 steps with each, from the same parameters and on the same examples.

Examples:
  sotto advise --model resnet20 --link 100mbit,20ms --ranks 8
  sotto advise --model lenet --link 1gbit --ranks 4 --quality high
  sotto advise --model lenet --link 20mbit,5ms --ranks 2 --codecs "ef | topk(0.01)" "power(2)" --check 200)text";

constexpr std::size_t shown = 5;
constexpr double busy = 0.9;             // a rank that has a core for a smaller share of the time is disturbed
constexpr std::int64_t most_ranks = 64;  // each is a thread with its own vectors

struct AdviseOptions {
  std::string quality = "medium";
  std::int64_t ranks_per_host = 1;
  std::optional<std::int64_t> check;
  bool all = false;
  bool json = false;
  void visit(OptionVisitor& v) {
    v.option("quality", quality,
             "the least quality; codecs below it are left out, or come last if --codecs names them: high keeps the "
             "loss of dense training, medium is near it",
             {text_of(Quality::high), text_of(Quality::medium), text_of(Quality::low)});
    v.option("ranks-per-host", ranks_per_host, "ranks that share a host like this one, and its cores", {1, 64});
    v.option("check", check,
             "also train for this many steps, on this machine, with `none` and each codec in the table, and compare "
             "the losses",
             {1, 1e9});
    v.option("all", all, "show all codecs, not the best five");
    v.option("json", json, "print JSON, with all codecs");
  }
};

// Refuses options that the replay of a step does not model.
void check(const Flags& flags, const Choices& choices) {
  std::vector<std::string> names = names_of_options(TransportOptions());
  names.insert(names.end(), {"codec-start-after", "codec-warmup", "final-average", "backend", "master", "deadline"});
  names.insert(names.end(), {"disk-deadline", "epochs", "max-steps", "test-batch-size", "train-dir", "resume"});
  names.insert(names.end(), {"checkpoint-every", "checkpoint-minutes", "eval-freq", "until", "keep-best"});
  names.insert(names.end(), {"check-replicas", "capture", "measure-errors", "csv-format", "csv-tag", "tensorboard"});
  names.emplace_back("metrics-port");
  for (const std::string& name : names) {
    refuse(flags.given(name), "--{}: changes nothing in a step; leave it out", name);
  }
  const TrainOptions& options = choices.options;
  refuse(!options.link, "sotto advise: say over which link, as --link 100mbit,20ms");
  refuse(options.ranks < 2 || options.ranks > most_ranks, "--ranks {}: from 2 to {} ranks can be advised",
         options.ranks, most_ranks);
  refuse(options.algorithm != TrainOptions{}.algorithm, "--algorithm {}: only steps of `sync` can be predicted",
         options.algorithm);
  refuse(scales_loss(choices.amp), "--amp {}: ranks agree on overflows in each step, which is not predicted; bf16 is",
         options.amp);
  refuse(options.average_batch_norm, "--average-batch-norm: what it adds to a step is not predicted");
}

// The quality of a method, if the table of candidates has it.
std::optional<Quality> known_quality(const Recipe& recipe) {
  for (const Candidate& candidate : candidates()) {
    if (read_recipe(candidate.codec).text() == recipe.text()) return candidate.quality;
  }
  return std::nullopt;
}

// `none`, and the user's codecs.
std::vector<Method> read_methods(std::span<const std::string> codecs, const Expression& aggregator) {
  std::vector<Method> methods{{read_recipe("none"), Quality::high}};
  for (const std::string& codec : codecs) {
    if (codec == "none") continue;
    const Recipe recipe = read_recipe(parse_expression("codecs", codec), &aggregator);
    refuse(recipe.by_itself() && recipe.aggregator.entry->name == auto_codec_name,
           "--codecs {}: it needs a real link to measure; leave it out", codec);
    methods.push_back({recipe, known_quality(recipe)});
  }
  return methods;
}

// The codecs in the table of candidates. Those that do not work with the aggregator are refused.
std::vector<Method> known_methods(Quality least, const Expression& aggregator, std::vector<Refusal>& refused) {
  std::vector<Method> methods;
  for (const Candidate& candidate : candidates()) {
    if (candidate.quality > least) continue;
    const Expression expression = parse_expression("codec", candidate.codec);
    const bool dense = candidate.codec == "none";  // `none` keeps the default aggregator, for a comparison
    try {
      methods.push_back({read_recipe(expression, dense ? nullptr : &aggregator), candidate.quality});
    } catch (const ConfigError& error) {
      refused.push_back({std::string(candidate.codec), error.text(flag_spelling)});
    }
  }
  return methods;
}

const Prediction& dense_of(const Advice& advice) {
  return *std::ranges::find(advice.ranked, "none", &Prediction::codec);
}

std::string loss_text(const Prediction& p) {
  constexpr std::array<std::string_view, 3> losses{"as dense", "near dense", "may be higher"};
  if (p.checked) return std::isfinite(p.checked->loss) ? fmt::format("{:.4g}", p.checked->loss) : "diverged";
  return p.quality ? std::string(losses[static_cast<std::size_t>(*p.quality)]) : "not known";
}

// How many rows are shown, and checked.
std::size_t count_of_shown(const Advice& advice, const AdviseOptions& own) {
  return own.all ? advice.ranked.size() : std::min(shown, advice.ranked.size());
}

// The result of one training of the check. Its losses are not finite if it diverged or failed.
struct CheckedRun {
  std::string codec, error{};                                    // why it failed, unless it diverged
  double first_loss = std::numeric_limits<double>::quiet_NaN();  // before the first step
  double last_loss = first_loss;                                 // the mean over the last tenth of the steps
  std::string tested{"-"};                                       // the goal metric on the test examples
};

// Trains with `none` and with each codec that is shown, each in a new run folder under `folder`. All trainings have the
// same initial parameters and examples. They run on this machine, and without the emulated link, on which no loss
// depends. Judges each loss by that of `none`. Leaves out codecs whose training failed. Returns 0, or the status of a
// signal that ended the check. Error if the training with `none` fails.
int check(const TrainOptions& options, const AdviseOptions& own, const std::string& folder, Advice& advice) {
  std::vector<Prediction*> checked{&*std::ranges::find(advice.ranked, "none", &Prediction::codec)};
  for (Prediction& prediction : std::span(advice.ranked).first(count_of_shown(advice, own))) {
    if (&prediction != checked[0]) checked.push_back(&prediction);
  }
  const Signals signals;  // a signal between two trainings also ends the check
  std::vector<CheckedRun> runs;
  for (const Prediction* prediction : checked) {
    CheckedRun& run = runs.emplace_back(CheckedRun{.codec = prediction->codec});
    TrainOptions job = options;
    job.link.reset();
    job.max_steps = job.epochs = job.eval_freq.emplace(*own.check);
    job.codec = run.codec;
    if (runs.size() == 1) job.aggregator = TrainOptions{}.aggregator;  // the aggregator is for the other codecs
    job.train_dir = fmt::format("{}/{}", folder, folder_name(runs.size(), checked.size(), job.codec));
    const LaunchResult launched =
        run_labelled(job, fmt::format("check {}/{} {}  ", runs.size(), checked.size(), job.codec));
    if (launched.signal != 0) return 128 + launched.signal;
    if (launched.status != 0) {
      if (runs.size() == 1) throw Error(fmt::format("the check with `{}` failed: {}", job.codec, launched.error));
      if (launched.reason != Reason::not_finite) run.error = launched.error;
      continue;
    }
    const Trial trial{
        .point = {}, .name = job.codec, .folder = job.train_dir, .options = job, .scores = {}, .error = {}};
    const TrialResult result = read_result(trial, {});
    run.first_loss = read_recorded_run(job.train_dir).loss.mean.front();
    run.last_loss = result.score;
    if (result.tested) run.tested = result.goal.with_unit(*result.tested);
  }
  for (std::size_t i = 0; i < checked.size(); ++i) {
    checked[i]->checked = {*own.check, runs[i].last_loss, runs[0].last_loss, runs[i].tested};
    checked[i]->quality = checked[i]->checked->quality(runs[0].first_loss);
  }
  for (const CheckedRun& run : runs) {
    if (run.error.empty()) continue;
    advice.refused.push_back({run.codec, "its check failed: " + run.error});
    std::erase_if(advice.ranked, [&](const Prediction& p) { return p.codec == run.codec; });
  }
  return 0;
}

std::string advice_text(const Advice& advice, const AdviseOptions& own) {
  return spelled(verdict(advice.ranked, quality_of(own.quality)), flag_spelling);
}

void print_table(const Advice& advice, const Choices& choices, const AdviseOptions& own) {
  const TrainOptions& options = choices.options;
  const auto plural = [](std::int64_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  const Prediction& dense = dense_of(advice);
  fmt::print("model    {}, {} parameters in {}: {} ms of computing a step, on {}\n", options.model,
             advice.compute.layout.numel(), plural(static_cast<std::int64_t>(advice.compute.buckets.size()), "bucket"),
             milliseconds(advice.compute.times.total()), plural(advice.host.threads, "thread"));
  fmt::print("link     {}, {} ranks of {} core{} each\n\n", *options.link, options.ranks, advice.host.cores(),
             advice.host.cores() == 1 ? "" : "s");
  std::vector<std::string> head{"codec", "averaged by", "ms a step", "waiting", "work of the codec"};
  head.insert(head.end(), {"sent a rank and step", "ratio", "error"});
  head.push_back(own.check ? fmt::format("loss after {} steps", *own.check) : "loss");
  if (own.check) head.push_back(fmt::format("test {}", choices.task->goal));
  TextTable table(head);
  for (const std::size_t column : {0, 1}) table.left(column);
  if (!own.check) table.left(8);
  const auto add = [&](const Prediction& p) {
    table.add({p.codec, p.aggregator, milliseconds(p.seconds), milliseconds(p.waiting), milliseconds(p.work),
               bytes_text(p.bytes_sent), fmt::format("{:.1f}", p.bytes_sent > 0 ? dense.bytes_sent / p.bytes_sent : 0),
               fmt::format("{:.3g}", p.relative_error), loss_text(p), p.checked ? p.checked->tested : ""});
  };
  const auto best = std::span(advice.ranked).first(count_of_shown(advice, own));
  for (const Prediction& prediction : best) add(prediction);
  if (std::ranges::find(best, "none", &Prediction::codec) == best.end()) add(dense);
  fmt::print("{}\n", table.plain());
  for (const auto& [expression, reason] : advice.refused) fmt::print("left out `{}`: {}\n", expression, reason);
  fmt::print("advice   {}\n", advice_text(advice, own));
  const Prediction& first = advice.ranked.front();
  if (!first.remark.empty()) fmt::print("`{}`: {}\n", first.codec, first.remark);
}

void print_json(const Advice& advice, const Choices& choices, const AdviseOptions& own) {
  auto codecs = nlohmann::ordered_json::array();
  for (const Prediction& p : advice.ranked) {
    codecs.push_back({{"codec", p.codec},
                      {"quality", p.quality ? nlohmann::ordered_json(text_of(*p.quality)) : nullptr},
                      {"aggregator", p.aggregator},
                      {"remark", p.remark},
                      {"ms_per_step", 1e3 * p.seconds},
                      {"waiting_ms", 1e3 * p.waiting},
                      {"work_ms", 1e3 * p.work},
                      {"bytes_per_step", p.bytes_sent},
                      {"ratio", p.bytes_sent > 0 ? dense_of(advice).bytes_sent / p.bytes_sent : 0},
                      {"relative_error", p.relative_error}});
    if (!p.checked) continue;
    codecs.back()["checked"] = {{"steps", p.checked->steps}, {"loss", p.checked->loss}, {"test", p.checked->tested}};
  }
  auto refused = nlohmann::ordered_json::array();
  for (const auto& [expression, reason] : advice.refused)
    refused.push_back({{"codec", expression}, {"reason", reason}});
  const nlohmann::ordered_json json{{"model", choices.options.model},
                                    {"parameters", advice.compute.layout.numel()},
                                    {"link", *choices.options.link},
                                    {"ranks", choices.options.ranks},
                                    {"threads", advice.host.threads},
                                    {"cores", advice.host.cores()},
                                    {"compute_ms", 1e3 * advice.compute.times.total()},
                                    {"codecs", codecs},
                                    {"refused", refused},
                                    {"advice", advice_text(advice, own)}};
  fmt::print("{}\n", json.dump(2));
}

}  // namespace

int run_advise(std::span<const std::string> arguments) {
  TrainOptions options;
  AdviseOptions own;
  std::vector<std::string> codecs;
  Flags flags("advise", "Predicts the time of a step over a link with each of many codecs, and recommends one.",
              examples);
  flags.alias("codecs", "codec");
  flags.add_list("codecs", codecs, "what to predict, each codec in quotes; by default those in the program's table");
  if (!read_with_train_flags(flags, arguments, own, options)) return 0;
  options.codec = TrainOptions{}.codec;  // --codec is a list here
  if (options.ranks == 0) options.ranks = 2;
  Choices choices = read_choices(options);
  choices.spelling = flag_spelling;
  check(flags, choices);
  const Expression aggregator = parse_expression("aggregator", options.aggregator);
  std::vector<Refusal> refused;
  const auto methods =
      codecs.empty() ? known_methods(quality_of(own.quality), aggregator, refused) : read_methods(codecs, aggregator);
  refuse(own.ranks_per_host > options.ranks, "--ranks-per-host {}: there are {} ranks", own.ranks_per_host,
         options.ranks);
  const std::int64_t threads =
      options.threads.value_or(std::max<std::int64_t>(1, Host::machine_cores() / own.ranks_per_host));
  set_compute_threads(static_cast<int>(threads));
  keep_freed_memory();
  const Quality least = quality_of(own.quality);
  Advice advice = advise(choices, methods, {threads, own.ranks_per_host}, least);
  advice.refused.insert(advice.refused.begin(), refused.begin(), refused.end());
  if (advice.compute.share < busy) {
    print_error(fmt::format(
        "sotto: warning: other work had this machine for {:.0f} % of the time: steps are shorter on an idle one\n",
        100 * (1 - advice.compute.share)));
  }
  if (own.check) {
    const std::string folder = new_run_folder("advise");
    if (const int status = check(options, own, folder, advice); status != 0) return status;
    rank_predictions(advice.ranked, least);
    print_error(fmt::format("the runs of the check are in {}\n", folder));
  }
  if (own.json) {
    print_json(advice, choices, own);
  } else {
    print_table(advice, choices, own);
  }
  return 0;
}

}  // namespace sotto
