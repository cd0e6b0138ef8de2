#include "sotto/algorithm/gossip/choco.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "sotto/algorithm/compute.h"
#include "sotto/algorithm/gossip/gossip.h"
#include "sotto/codec/contract.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/timer.h"
#include "sotto/optim/stretch.h"

namespace sotto {
namespace {

struct ChocoOptions {
  double gamma = 0;
  void visit(OptionVisitor& v) {
    v.option("gamma", gamma, "how far models move towards what is known of neighbours; 0: by the codec's contraction",
             {0, 1});
  }
};

class Choco final : public Algorithm {
 public:
  Choco(double gamma, std::string remark, const AlgorithmOptions& options, Gossiper gossiper,
        Communicator& communicator)
      : gamma_(static_cast<float>(gamma)),
        remark_(std::move(remark)),
        options_(options),
        communicator_(communicator),
        gossiper_(std::move(gossiper)),
        patience_(gossiper_.topology().spread()),
        row_sum_(gossiper_.received_share()) {}

  std::string_view name() const override { return "choco"; }
  std::string_view aggregator() const override { return "gossip"; }
  std::string remark() const override { return remark_; }
  Rhythm rhythm() const override { return {0, gossiper_.topology().period()}; }
  void enter(std::uint64_t /*step*/) override {}

  StepReport step(Worker& worker, const StepInput& input) override {
    Timer total, lap;
    StepReport report;
    communicator_.at_step(input.step);
    if (x_.empty()) know(worker.parameters());
    worker.optimiser().begin_step(input.step);
    report.loss = worker.compute_gradient(input.step, {});
    worker.optimiser().apply(x_, worker.optimiser().outgoing(worker.gradient(), 0), 0, input.lr);
    if (input.stop) note_.least = std::min(note_.least, input.step + patience_);
    report.compute = lap.lap();
    std::ranges::transform(x_, known_, difference_.begin(), std::minus<>());
    gossiper_.begin_difference(difference_, known_, sum_, note_, key_of(options_, communicator_, input), report.phases);
    gossiper_.exchange(communicator_, report.phases);
    gossiper_.finish(sum_, note_, report.phases);
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += gamma_ * (sum_[i] - known_[i]);
    report.wait = lap.lap();
    divide(x_, note_.weight, worker.parameters());
    report.compute += lap.lap();
    report.stop = input.step >= note_.least;
    report.seconds = total.seconds();
    return report;
  }

  void agree(Worker& worker) override {
    if (x_.empty()) know(worker.parameters());
    agree_on(x_, note_.weight, communicator_);
    know(std::vector<float>(x_));
    divide(x_, note_.weight, worker.parameters());
  }

  void visit_state(StateVisitor& visitor) override {
    gossiper_.visit_state(visitor);
    visit_model(visitor, "choco.x", x_, gossiper_.size());
    known_.resize(x_.size());
    sum_.resize(x_.size());
    visit_vector(visitor, "choco.known", known_);
    visit_vector(visitor, "choco.sum", sum_);
    visit_weight(visitor, "choco.weight", note_.weight);
    difference_.resize(x_.size());
  }

 private:
  // All ranks have the same x, and know that.
  void know(std::span<const float> x) {
    x_.assign(x.begin(), x.end());
    known_ = sum_ = x_;
    for (float& value : sum_) value *= static_cast<float>(row_sum_);
    difference_.resize(x_.size());
  }

  float gamma_;
  std::string remark_;
  AlgorithmOptions options_;
  Communicator& communicator_;
  Gossiper gossiper_;
  std::uint64_t patience_;  // steps after which all have heard of a stop
  double row_sum_;          // sum_j a_ij
  std::vector<float> x_;
  std::vector<float> known_;  // x^, the same wherever this rank is known
  std::vector<float> sum_;    // of a_ij x^_j
  std::vector<float> difference_;
  GossipNote note_;
};

}  // namespace

std::unique_ptr<Algorithm> make_choco(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                      std::span<const BucketPlan> buckets, Communicator& communicator) {
  ChocoOptions own;
  read_options(sentence, call, own);
  Gossiper gossiper = make_gossiper(options, buckets, communicator, Contract::Input::delta);
  if (!gossiper.topology().is_static()) {
    fail_at(sentence, call, call.position,
            fmt::format("neighbours know each other's models, and `{}` changes them from round to round; take "
                        "--topology ring, torus, complete or static_exponential",
                        gossiper.topology().sentence()));
  }
  const double delta = contraction_of(gossiper.contract());
  if (delta == 0) {
    throw ConfigError(
        fmt::format("--codec {}: what it leaves out of a difference may be as large as that; choco wants "
                    "a contraction, as topk, sign or qsgd(bits=4)",
                    options.codec));
  }
  std::string remark;
  if (own.gamma == 0) {
    own.gamma = delta == 1 ? 1 : 0.5 * std::sqrt(delta);
    remark = fmt::format("choco: gamma {:.3g}, as the codec is a contraction of {:.3g}", own.gamma, delta);
  }
  return std::make_unique<Choco>(own.gamma, std::move(remark), options, std::move(gossiper), communicator);
}

std::string help_choco() { return help_options(ChocoOptions{}); }

}  // namespace sotto
