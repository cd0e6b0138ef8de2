#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "sotto/capi/stepper.h"

// What a Stepper says of itself: its state, its terms, and what it has sent.
namespace sotto {
namespace {

// The name in a state of the parameters as changed by hand since the last step, if they were.
constexpr std::string_view changed_parameters = "parameters, changed since";

}  // namespace

StepperOptions read_stepper_options(const StepperTexts& texts, int ranks) {
  StepperOptions options{.algorithm = read_algorithm("algorithm", texts.algorithm), .own = {}, .required_same = {}};
  options.own.node_size = texts.node_size;
  options.own.averages_in_node = false;  // there are no gradients here; whoever has them averages them in backward
  options.own.phases = {{0, read_recipe(texts.codec, texts.aggregator)}};
  const AlgorithmEntry& entry = *options.algorithm.entry;
  options.own.topology = read_topology(texts.topology.empty() ? entry.graph.topology : texts.topology);
  options.own.mixing = read_mixing(texts.mixing);
  if (texts.peers_per_step.empty()) return options;
  if (!entry.graph.changes) {
    throw ConfigError(fmt::format("{}: {} has no peers whose number may change; push_sum has", named("peers_per_step"),
                                  texts.algorithm));
  }
  const int nodes = ranks / texts.node_size;
  options.own.topologies = read_peer_schedule("peers_per_step", texts.peers_per_step, options.own.topology, nodes);
  for (const TopologyPhase& phase : options.own.topologies) {
    check_graph(options.algorithm, phase.topology, options.own.mixing, nodes);
  }
  return options;
}

StateValues Stepper::state() {
  idle();
  look();
  std::vector<float>& now = own_.empty() ? moved_ : own_;
  if (own_.empty()) model_->read(now);
  model_->layout().clear_padding(now);
  StateCollector collector;
  algorithm_->enter(step_);
  algorithm_->visit_state(collector);
  visit_vector(collector, "parameters", shown_);
  if (!std::ranges::equal(std::as_bytes(std::span(now)), std::as_bytes(std::span(shown_)))) {
    visit_vector(collector, changed_parameters, now);
  }
  return collector.take();
}

void Stepper::load(std::uint64_t step, const StateValues& values) {
  idle();
  if (apart_ || options_.own.node_size > 1) require_same_load(step, nullptr);  // before all load together
  std::unique_ptr<Algorithm> made;
  std::vector<float> parameters(shown_.size()), now;
  std::exception_ptr refusal;
  try {
    require_own_model();
    made = make();
    made->enter(step);
    StateRestorer restorer(values);
    made->visit_state(restorer);
    visit_vector(restorer, "parameters", parameters);
    model_->layout().clear_padding(parameters);
    now = parameters;
    if (values.contains(changed_parameters)) visit_vector(restorer, changed_parameters, now);
    restorer.finish();
  } catch (...) {  // any error, because others wait for this rank
    refusal = std::current_exception();
  }
  require_same_load(step, refusal);
  replaced_ = traffic();
  replaced_.bytes_sent -= communicator_->traffic().bytes_sent;
  replaced_.bytes_received -= communicator_->traffic().bytes_received;
  algorithm_ = std::move(made);
  shown_ = std::move(parameters);
  model_->write(now);
  step_ = apart_ ? algorithm_->own_speed()->rank_steps()[static_cast<std::size_t>(communicator_->rank())] : step;
  fresh_ = false;
}

void Stepper::refuse_load() {
  idle();
  guarded([this] { of_all_ranks(*communicator_, refusal_value); });
}

std::vector<std::string> Stepper::shared() {
  StateNames names;
  if (Elastic* elastic = algorithm_->elastic()) elastic->visit_shared(names);
  return names.take();
}

void Stepper::rejoin(std::uint64_t step, const FormerState& former) {
  idle();
  require_even_commits(step);
  const bool is_new = former.rank < 0;
  std::vector<float> by_hand(shown_.size()), now;
  guarded([&] {
    algorithm_->enter(step);
    StateRestorer restorer(former.values);
    algorithm_->elastic()->visit_shared(restorer);
    model_->read(shown_);
    now = shown_;
    if (!is_new) {
      const FormerRank self{former.rank, former.ranks, &restorer};
      algorithm_->elastic()->take_over({&self, 1});
      visit_vector(restorer, "parameters", shown_);
      now = shown_;
      if (former.values.contains(changed_parameters)) visit_vector(restorer, changed_parameters, now);
      std::ranges::transform(now, shown_, by_hand.begin(), std::minus());
    }
    restorer.finish();
  });
  require_finite_everywhere(now, model_->layout());
  guarded([&] {
    // If all former ranks are lost, the new ranks have the model of one of them.
    const bool nobody = std::ranges::min(of_all_ranks(*communicator_, is_new ? 1 : 0)) == 1;
    take_mean(std::move(by_hand), nobody || !is_new,
              [&] { algorithm_->elastic()->sync_after_change(*this, is_new && !nobody); });
    if (apart_) algorithm_->own_speed()->begin_at(step / static_cast<std::uint64_t>(ranks()));
  });
  step_ = apart_ ? step / static_cast<std::uint64_t>(ranks()) : step;
  fresh_ = false;
}

// A rank that continues alone would send messages that nobody expects.
void Stepper::require_same_load(std::uint64_t step, const std::exception_ptr& refusal) {
  std::vector<std::uint64_t> all;
  guarded([&] { all = of_all_ranks(*communicator_, refusal ? refusal_value : step + 1); });
  if (refusal) std::rethrow_exception(refusal);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == refusal_value)
      throw CommError(fmt::format("rank {} refuses its state; its own error says why", rank));
    if (all[rank] == step + 1) continue;
    throw CommError(fmt::format("rank {} loads the state of step {}, and rank {} the state of step {}", rank,
                                all[rank] - 1, communicator_->rank(), step));
  }
}

// The next group would find states of different steps again, so this is a ConfigError, not the CommError of a lost
// peer.
void Stepper::require_even_commits(std::uint64_t step) {
  std::vector<std::uint64_t> all;
  guarded([&] { all = of_all_ranks(*communicator_, step + 1); });
  const auto other = std::ranges::find_if(all, [&](std::uint64_t one) { return one != all[0]; });
  if (other == all.end()) return;
  throw ConfigError(
      fmt::format("the last commit of rank {} was after step {}, and rank 0's after step {}; call commit() on all "
                  "ranks after the same steps",
                  other - all.begin(), *other - 1, all[0] - 1));
}

std::vector<std::string> Stepper::gather(const std::string& own) {
  idle();
  std::vector<std::string> all;
  guarded([&] { all = sotto::gather(*communicator_, own); });
  return all;
}

AveragerStats Stepper::stats() const {
  const Traffic now = traffic();
  const auto ranks = static_cast<std::uint64_t>(communicator_->size());
  const std::uint64_t dense = model_->layout().numel() * sizeof(float) * 2 * (ranks - 1) / ranks;
  return {steps_, now.bytes_sent - before_.bytes_sent, now.bytes_received - before_.bytes_received, steps_ * dense,
          timings_};
}

Traffic Stepper::traffic() const {
  Traffic sum = communicator_->traffic();
  const Traffic beside = algorithm_->status().traffic;
  sum.bytes_sent += beside.bytes_sent + replaced_.bytes_sent;
  sum.bytes_received += beside.bytes_received + replaced_.bytes_received;
  return sum;
}

std::string Stepper::methods() const {
  std::string text = fmt::format("{}: {} by {}", options_.algorithm.source_text(), options_.own.recipe().text(),
                                 algorithm_->status().aggregator);
  if (const std::string remark = algorithm_->status().remark; !remark.empty()) text += fmt::format(" ({})", remark);
  return text + "\n";
}

std::string Stepper::identity(bool graph) const {
  const AlgorithmOptions& own = options_.own;
  std::string text =
      fmt::format("{}, seed {}, buckets of {} bytes\n{} by {}\n", options_.algorithm.source_text(), own.seed,
                  options_.bucket_bytes, own.recipe().text(), text_of(own.recipe().aggregator));
  if (graph && options_.algorithm.entry->graph.used) {
    text += fmt::format("{}, {}\n", own.topology.text(), own.mixing.text());
    for (const TopologyPhase& phase : own.topologies) {
      text += fmt::format("from step {} {}\n", phase.first, phase.topology.text());
    }
    if (own.node_size > 1) text += fmt::format("between nodes of {}\n", own.node_size);
  }
  for (const Segment& segment : model_->layout().segments()) {
    text += "  " + segment.name;
    for (const std::int64_t size : segment.shape) text += fmt::format(" {}", size);
    text += '\n';
  }
  return text;
}

// All that the room for a message depends on.
Terms Stepper::terms() const {
  const AlgorithmOptions& own = options_.own;
  Terms terms{{"what is averaged", "models"},
              {"algorithm", options_.algorithm.source_text()},
              {"codec", own.recipe().text()},
              {"aggregator", text_of(own.recipe().aggregator)},
              {"topology", own.topology.text()},
              {"mixing", own.mixing.text()},
              {"node_size", std::to_string(own.node_size)}};
  for (const TopologyPhase& phase : own.topologies) {
    terms.emplace_back("peers_per_step", fmt::format("from step {} {}", phase.first, phase.topology.text()));
  }
  terms.emplace_back("seed", std::to_string(own.seed));
  terms.emplace_back("bucket_mb", fmt::format("{}", static_cast<double>(options_.bucket_bytes) / (1 << 20)));
  for (const Segment& segment : model_->layout().segments()) {
    terms.emplace_back(segment.name, fmt::format("({})", fmt::join(segment.shape, ", ")));
  }
  terms.insert(terms.end(), options_.required_same.begin(), options_.required_same.end());
  return terms;
}

std::uint64_t Stepper::step() const {
  if (!apart_) return step_;
  const auto all = steps();
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

std::vector<std::uint64_t> Stepper::steps() const {
  if (apart_) return algorithm_->own_speed()->rank_steps();
  return std::vector<std::uint64_t>(static_cast<std::size_t>(communicator_->size()), step_);
}

}  // namespace sotto
