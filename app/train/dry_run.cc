#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "app/train/folder/checkpoint.h"
#include "app/train/folder/run_folder.h"
#include "app/train/folder/weights.h"
#include "app/train/identity.h"
#include "app/train/plan.h"
#include "app/train/record/evaluations.h"
#include "app/train/record/gradient_study.h"
#include "app/train/record/listener.h"
#include "app/train/trainer.h"
#include "sotto/aggregate/aggregate.h"
#include "sotto/aggregate/auto_codec.h"
#include "sotto/codec/measure.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/comm/secret.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"

namespace sotto {
namespace {

constexpr std::int64_t most_ranks = 64;  // each is a thread with its own gradient

// A worker with normally distributed gradients, or zeros, instead of a model.
class MadeWorker final : public Worker {
 public:
  MadeWorker(std::uint64_t seed, const ChosenOptimiser& optimiser, const Layout& layout,
             std::span<const BucketPlan> buckets, int rank, bool can_overflow)
      : layout_(layout),
        buckets_(buckets),
        can_overflow_(can_overflow),
        random_(seed, Purpose::test, static_cast<std::uint64_t>(rank)),
        parameters_(layout.size()),
        gradient_(layout.size()),
        optimiser_(make_optimiser(optimiser, layout)) {}
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return *optimiser_; }
  void make_zeros() { makes_zeros_ = true; }
  double compute_gradient(std::uint64_t /*step*/, const BucketCalls& calls) override {
    if (makes_zeros_) std::ranges::fill(gradient_, 0.0F);
    for (const Segment& segment : layout_.segments()) {
      if (makes_zeros_) break;
      const auto values = std::span(gradient_).subspan(segment.offset, segment.numel());
      const std::uint64_t high = random_.next();
      fill_sample("sample", "gaussian", high << 32 | random_.next(), values);
    }
    if (can_overflow_) calls.is_void(false);
    for (std::size_t b = 0; b < buckets_.size(); ++b) calls.ready(b);
    return 0;
  }

 private:
  const Layout& layout_;
  std::span<const BucketPlan> buckets_;
  bool can_overflow_;  // ranks then agree on void steps
  bool makes_zeros_ = false;
  Philox random_;
  std::vector<float> parameters_, gradient_;
  std::unique_ptr<Optimiser> optimiser_;
};

// Makes the checks that a run makes once it has begun: of folders of other runs, and of the secret.
void check_files(const Choices& choices) {
  const TrainOptions& options = choices.options;
  check_run_folder(options);
  check_tensorboard(options);
  check_capture_folder(choices);
  if (!options.transport.secret.empty()) read_secret(options.transport.secret);
}

// ConfigError if the run could not continue from its newest checkpoint. Does not look whether the checkpoint's parts
// are whole.
void check_resume(const Choices& choices, Task& task, const RunPlan& plan) {
  const TrainOptions& options = choices.options;
  const std::string method = text_of(plan.phases);
  const auto identity = run_identity(choices, method, task, static_cast<int>(options.ranks));
  std::vector<std::uint64_t> steps = checkpoint::find(options.train_dir);
  for (; !steps.empty(); steps.pop_back()) {
    const std::filesystem::path folder = checkpoint::folder(options.train_dir, steps.back());
    Manifest manifest;
    try {
      manifest = Manifest::of_text(read_manifest_text(folder));
    } catch (const FileError&) {  // the run passes over this checkpoint
      continue;
    }
    const bool same = require_resumable(choices, folder.string(), manifest, identity, false);
    if (same && !choices.codec_warmup) require_identity(folder.string(), manifest.identity, {{"codec", method}});
    return;
  }
}

// Makes all parts of a run, for their errors, and takes steps if `takes_steps`.
DryRun try_run(const Choices& asked, bool takes_steps) {
  World world;  // a single host
  world.size = world.local_size = static_cast<int>(std::max<std::int64_t>(1, asked.options.ranks));
  const Choices choices = with_groups(asked, world);
  const TrainOptions& options = choices.options;
  const std::string here = named("dry-run");
  if (takes_steps && options.ranks > most_ranks) {
    throw ConfigError(fmt::format("{} with {}: at most {} ranks are tried out", here,
                                  named("ranks", std::to_string(options.ranks)), most_ranks));
  }
  if (takes_steps && choices.recipe.by_itself() && choices.recipe.aggregator.entry->name == auto_codec_name) {
    throw ConfigError(fmt::format("{} with {}: it measures the link, and there is none; say which codec", here,
                                  named("codec", "auto")));
  }
  const int ranks = static_cast<int>(options.ranks);
  const int idle = idle_ranks(choices.algorithm, ranks);
  const auto task = make_task(choices, {0, ranks - idle});
  const Layout& layout = task->layout();
  const auto buckets = plan_buckets(layout, choices.buckets);
  const ChosenOptimiser& optimiser = choices.optimiser;
  const auto trial = make_optimiser(optimiser, layout);
  require_whole_tensors(*trial, layout, buckets);
  const RunPlan plan =
      plan_run(choices, Course(task->epochs(), {.accumulate = static_cast<std::uint64_t>(options.accumulate)}),
               trial->dense_steps());
  // Called only for their errors: whatever a run would refuse is refused here.
  make_schedule(choices.schedule, plan.horizon, plan.epoch);
  check_phases(plan.phases, buckets);
  const bool averages = averages_batch_norm(choices, *task, ranks);
  if (takes_steps && options.resume) check_resume(choices, *task, plan);
  const auto seed = static_cast<std::uint64_t>(options.seed);

  DryRun result;
  const Phase& last = plan.phases.back();  // earlier steps send more
  result.only_dense = plan.only_dense();
  result.phases_remark = plan.remark;
  result.warnings = task->remarks();
  for (const std::string& doubt : {start_from_weights(options, *task), groups_doubt("group", optimiser.groups, layout),
                                   plan.doubt(choices.algorithm, buckets)}) {
    if (!doubt.empty()) result.warnings.push_back(doubt);
  }
  result.data_report = task->data_report(idle);
  result.parameters = layout.numel();
  result.buckets = buckets.size();
  result.bytes_sent.resize(static_cast<std::size_t>(ranks));
  std::atomic<bool> vary = false;
  run_threads(ranks, std::chrono::seconds(options.deadline), [&](Communicator& communicator) {
    const auto algorithm =
        make_algorithm(choices.algorithm,
                       {.phases = {{0, last.recipe}},
                        .topology = plan.topologies.empty() ? choices.topology : plan.topologies.back().topology,
                        .mixing = choices.mixing,
                        .node_size = static_cast<int>(options.node_size),
                        .overlap = false,
                        .seed = seed},
                       buckets, communicator);
    check_captured_memory(choices, *algorithm, buckets);
    if (!takes_steps) return;
    MadeWorker worker(seed, optimiser, layout, buckets, communicator.rank(), scales_loss(choices.amp));
    std::vector<float> buffers(averages ? task->buffers().size() : 0);
    // Runs the period three times. The first time may measure, and does not count. The last time has zeros as
    // gradients, which shows whether bytes depend on values. Steps that send nothing need no trial.
    const Rhythm rhythm = algorithm->traits().rhythm;
    if (rhythm.period == 0) {
      throw ConfigError(here + ": what `" + options.algorithm +
                        "` sends depends on how fast ranks are; every=1 says what one exchange costs");
    }
    const std::uint64_t first = std::max(last.first_step, rhythm.first);
    std::uint64_t sends = first;  // the first step that sends something
    while (!algorithm->exchanges(sends)) ++sends;
    const auto sent = [&] {
      const OwnSpeed* apart = algorithm->own_speed();
      return communicator.traffic().bytes_sent +
             (apart ? apart->exchange_bytes() : algorithm->status().traffic.bytes_sent);
    };
    std::uint64_t before = 0, after = 0, exchanges = 0;
    for (std::uint64_t step = first; step < first + 3 * rhythm.period; ++step) {
      if (step == first + rhythm.period) before = sent();
      if (step == first + 2 * rhythm.period) {
        after = sent();
        worker.make_zeros();
      }
      if (!algorithm->exchanges(step)) continue;
      // If the run ends before this step, it has no rate here; 1 stands for it.
      algorithm->step(worker, {.step = step, .lr = step < plan.steps ? optimiser.lr : 1});
      algorithm->drain();
      if (averages) aggregate(buffers, Op::avg, communicator);
      ++exchanges;
    }
    const std::uint64_t end = sent();
    if (end - after != after - before) vary = true;
    algorithm->drain();  // again, to subtract the bytes of a drain(): a run does not drain after each step
    result.bytes_sent[static_cast<std::size_t>(communicator.rank())] = after - before - exchanges / 3 * (sent() - end);
    if (communicator.rank() == 0) {
      const bool never = sends >= plan.steps;
      result.first_step = never ? sends : first;
      result.only_dense = result.only_dense || never;
      result.period = rhythm.period;
      result.exchanges = exchanges / 3;
      result.aggregator = algorithm->status().aggregator;
      result.remark = algorithm->status().remark;
      result.dense_bytes = communicator.all_reduce_bytes(layout.size(), DType::f32);
    }
  });
  result.bytes_vary = vary;
  return result;
}

}  // namespace

DryRun dry_run(const Choices& choices) {
  check_files(choices);
  return try_run(choices, true);
}

void require_trainable(const Choices& choices) {
  if (choices.options.ranks <= most_ranks) try_run(choices, false);
}

}  // namespace sotto
