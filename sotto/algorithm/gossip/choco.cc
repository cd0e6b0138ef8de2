#include "sotto/algorithm/gossip/choco.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sotto/algorithm/bucket_thread.h"
#include "sotto/algorithm/compute.h"
#include "sotto/algorithm/gossip/gossip.h"
#include "sotto/algorithm/gossip/pushed_model.h"
#include "sotto/codec/contract.h"
#include "sotto/codec/select/sampled_topk.h"
#include "sotto/codec/select/threshold.h"
#include "sotto/codec/select/topk.h"
#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"

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

// The contraction of a codec, the smallest over all buckets, with `topk` in place of such selections. They declare the
// contraction of the worst vector, of which they send a single element: with that, gamma would hardly mix anything.
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
class Choco final : public Algorithm, private Elastic {
 public:
  Choco(double gamma, std::string remark, const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
        std::vector<Gossiper> gossipers, Communicator& communicator)
      : Algorithm({.rhythm = {0, gossipers.front().topology().period()}}, this),
        Elastic({.meets_models = true}),
        gamma_(static_cast<float>(gamma)),
        remark_(std::move(remark)),
        options_(options),
        buckets_(buckets.begin(), buckets.end()),
        communicator_(communicator),
        gossipers_(std::move(gossipers)),
        stop_delay_([this] { return topology().rounds_to_reach_all(); }),
        row_sum_(gossipers_.front().received_share()),
        model_("choco", buckets_.front().range.end),
        thread_(
            buckets_.size(), options.overlap, [this](std::size_t bucket) { advance(bucket); },
            [this](std::size_t bucket) { mix(bucket); }) {}

  AlgorithmStatus status() const override { return {"gossip", remark_}; }

  StepReport step(Worker& worker, const StepInput& input) override {
    const Timer total;
    report_ = {};
    worker_ = &worker;
    lr_ = input.lr;
    key_ = key_of(options_, communicator_, input);
    communicator_.at_step(input.step);
    model_.begin(worker);
    if (known_.empty()) know();
    worker.optimiser().begin_step(input.step);
    if (input.stop) stop_delay_.stop(model_.note(), input.step);
    thread_.run(worker, input.step, report_);
    model_.note() = mixed_;
    model_.show(worker);
    report_.stop = input.step >= model_.note().stop_step;
    report_.seconds = total.seconds();
    report_.compute = report_.seconds - report_.wait;
    return report_;
  }

  void go_on() override { model_.note().stop_step = GossipNote{}.stop_step; }

  void average_models(Worker& worker) override { average(worker, true); }

  void visit_state(StateVisitor& visitor) override {
    visit_gossipers(visitor, gossipers_);
    model_.visit_state(visitor);
    known_.resize(model_.x().size());
    sum_.resize(known_.size());
    visit_vector(visitor, "choco.known", known_);
    visit_vector(visitor, "choco.sum", sum_);
  }

 private:
  std::uint64_t lead() override { return stop_delay_.steps(); }

  // What neighbours know of each other begins again, with the model that all have then.
  void take_over(std::span<const FormerRank> each) override {
    model_.take_over(each, [this](StateVisitor& state) { visit_state(state); });
    know();
  }
  void sync_after_change(Worker& worker, bool is_new) override { average(worker, !is_new); }

  void average(Worker& worker, bool counts) {
    model_.average_models(worker, communicator_, counts);
    know();
  }
  // All ranks start from this x, so each knows the x^ of its neighbours.
  void know() {
    known_.assign(model_.x().begin(), model_.x().end());
    sum_ = known_;
    for (float& value : sum_) value *= static_cast<float>(row_sum_);
  }

  const Topology& topology() const { return gossipers_.front().topology(); }

  // Takes this rank's own step.
  void advance(std::size_t index) {
    const Range range = buckets_[index].range;
    step_stretch(*worker_, model_.x().subspan(range.begin, range.size()), range.begin, lr_, scratch_);
  }

  void mix(std::size_t index) {
    const Range range = buckets_[index].range;
    const auto of = [&](std::span<float> all) { return all.subspan(range.begin, range.size()); };
    const std::span<float> x = of(model_.x()), known = of(known_), sum = of(sum_);
    difference_.resize(range.size());
    std::ranges::transform(x, known, difference_.begin(), std::minus<>());
    mixed_ = model_.note();  // the same for each bucket
    const double weight = mixed_.weight;
    Gossiper& gossiper = gossipers_[index];
    gossiper.begin_difference(difference_, known, sum, mixed_, key_, report_.timings);
    gossiper.exchange(communicator_, report_.timings);
    gossiper.finish(sum, mixed_, report_.timings);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += gamma_ * (sum[i] - known[i]);
    mixed_.weight = weight + static_cast<double>(gamma_) * (mixed_.weight - weight);
  }

  float gamma_;
  std::string remark_;
  AlgorithmOptions options_;
  std::vector<BucketPlan> buckets_;
  Communicator& communicator_;
  std::vector<Gossiper> gossipers_;  // one per bucket
  StopDelay stop_delay_;
  double row_sum_;  // sum_j a_ij
  PushedModel model_;
  std::vector<float> known_;       // x^, the same on all ranks that know this one
  std::vector<float> sum_;         // sum_j a_ij x^_j
  std::vector<float> difference_;  // of the current bucket
  std::vector<float> scratch_;
  // Of the current step:
  Worker* worker_ = nullptr;
  Key key_;
  double lr_ = 0;
  StepReport report_;  // its timings belong to the communication thread until wait()
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
                    named(options.recipe().option, options.recipe().said)));
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
      topology.sentence());
}

}  // namespace sotto
