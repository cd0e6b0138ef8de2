#include "sotto/algorithm/gossip/gossip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sotto/algorithm/gossip/gossip_step.h"
#include "sotto/algorithm/step_thread.h"
#include "sotto/algorithm/worker.h"
#include "sotto/codec/contract.h"
#include "sotto/codec/select/threshold.h"
#include "sotto/codec/select/topk.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/state.h"

namespace sotto {
namespace {

// The options of the `topk` that a selection approximates by a sample or an estimate. nullopt for any other stage.
std::optional<TopKOptions> usual_options(const StageSpec& stage) {
  TopKOptions usual;
  if (stage.entry->name == "sampled_topk") {
    const auto& options = stage.options.as<SampledTopKOptions>();
    usual.ratio = options.ratio;
    usual.scope = options.scope;
    usual.dense = options.dense;
    return usual;
  }
  if (stage.entry->name != "threshold") return std::nullopt;
  const auto& options = stage.options.as<ThresholdOptions>();
  if (!options.keep) return std::nullopt;
  usual.ratio = *options.keep;
  usual.scope = options.scope;
  usual.dense = options.dense;
  return usual;
}

// The contraction of a codec, the smallest over all buckets, with `topk` in place of selections that approximate it.
// Those declare the contraction of the worst vector, of which they send a single element. A gamma made of that
// contraction would hardly mix anything.
double usual_contraction(StageSpecs stages, std::span<const BucketPlan> buckets) {
  for (StageSpec& stage : stages) {
    if (const auto usual = usual_options(stage)) stage = stage_table().choose("topk", *usual);
  }
  const auto codec = make_codec(stages);
  double delta = 1;
  for (const BucketPlan& bucket : buckets) delta = std::min(delta, contraction_of(codec->contract(bucket.layout)));
  return delta;
}

// Buckets leave as backward finishes them.
class Choco final : public PushSumStep {
 public:
  Choco(double gamma, std::string remark, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
        std::vector<Gossiper> gossipers, Communicator& communicator)
      : PushSumStep("choco", buckets.front().range.end, options, communicator,
                    {.rhythm = {0, gossipers.front().topology().period()}},
                    [this] { return gossipers_.front().topology().rounds_to_reach_all(); }),
        gamma_(static_cast<float>(gamma)),
        remark_(std::move(remark)),
        buckets_(buckets.begin(), buckets.end()),
        gossipers_(std::move(gossipers)),
        row_sum_(gossipers_.front().received_share()),
        thread_(
            buckets_.size(), options.overlap, [this](std::size_t bucket) { advance(bucket); },
            [this](std::size_t bucket) { mix(bucket); }) {}

  AlgorithmStatus status() const override { return {"gossip", remark_}; }

  void visit_state(StateVisitor& visitor) override {
    visit_gossipers(visitor, gossipers_);
    PushSumStep::visit_state(visitor);
    known_.resize(x_.size());
    sum_.resize(known_.size());
    visit_vector(visitor, "choco.known", known_);
    visit_vector(visitor, "choco.sum", sum_);
  }

 private:
  void gossip(Worker& worker, Step& now) override {
    worker_ = &worker;
    now_ = &now;
    communicator_.at_step(now.step);
    begin(worker);
    if (known_.empty()) restart();
    worker.optimiser().begin_step(now.step);
    thread_.run(worker, now);
    note_ = mixed_;
    show(worker);
  }

  // All ranks start from this x, so each knows the x^ of its neighbours.
  void restart() override {
    known_ = x_;
    sum_ = known_;
    for (float& value : sum_) value *= static_cast<float>(row_sum_);
  }

  // Takes this rank's own step.
  void advance(std::size_t index) {
    const Range range = buckets_[index].range;
    step_stretch(*worker_, std::span(x_).subspan(range.begin, range.size()), range.begin, now_->lr, scratch_);
  }

  void mix(std::size_t index) {
    const Range range = buckets_[index].range;
    const auto of = [&](std::span<float> all) { return all.subspan(range.begin, range.size()); };
    const std::span<float> x = of(x_), known = of(known_), sum = of(sum_);
    difference_.resize(range.size());
    std::ranges::transform(x, known, difference_.begin(), std::minus<>());
    mixed_ = note_;  // the same for each bucket
    const double weight = mixed_.weight;
    Gossiper& gossiper = gossipers_[index];
    gossiper.begin_difference(difference_, known, sum, mixed_, now_->key, now_->timings);
    gossiper.exchange(communicator_, now_->timings);
    gossiper.finish(sum, mixed_, now_->timings);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += gamma_ * (sum[i] - known[i]);
    mixed_.weight = weight + static_cast<double>(gamma_) * (mixed_.weight - weight);
  }

  float gamma_;
  std::string remark_;
  std::vector<BucketPlan> buckets_;
  std::vector<Gossiper> gossipers_;  // one per bucket
  double row_sum_;                   // sum_j a_ij
  std::vector<float> known_;         // x^, the same on all ranks that know this one
  std::vector<float> sum_;           // sum_j a_ij x^_j
  std::vector<float> difference_;    // of the current bucket
  std::vector<float> scratch_;
  // Of the current step:
  Worker* worker_ = nullptr;
  Step* now_ = nullptr;
  GossipNote mixed_;
  BucketThread thread_;  // last: it is destroyed before what its work uses
};

}  // namespace

std::unique_ptr<Algorithm> make_choco(const ChocoOptions& own, const AlgorithmOptions& options,
                                      std::span<const BucketPlan> buckets, Communicator& communicator) {
  std::vector<Gossiper> gossipers = make_gossipers(options, buckets, communicator, Contract::Input::delta);
  if (std::ranges::any_of(gossipers, [](const Gossiper& g) { return contraction_of(g.contract()) == 0; })) {
    throw ConfigError(
        fmt::format("{}: what it leaves out of a difference may be as large as that; choco wants "
                    "a contraction, as topk, sign or qsgd(bits=4)",
                    named(options.recipe().option, options.recipe().source_text)));
  }
  std::string remark;
  double gamma = own.gamma.value_or(0);
  if (!own.gamma) {
    const double delta = usual_contraction(options.recipe().stages, buckets);
    gamma = delta == 1 ? 1 : 0.5 * std::sqrt(delta);
    remark = fmt::format("choco: gamma {:.3g}, as the codec is, usually, a contraction of {:.3g}", gamma, delta);
  }
  return std::make_unique<Choco>(gamma, std::move(remark), options, buckets, std::move(gossipers), communicator);
}

std::string problem_of_choco(const Topology& topology, const Mixing& /*mixing*/) {
  if (topology.is_static()) return "";
  return fmt::format(
      "neighbours know each other's models, and `{}` changes them from round to round; ring, torus, complete and "
      "static_exponential do not",
      topology.text());
}

}  // namespace sotto
