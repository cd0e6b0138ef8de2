#include "sotto/aggregate/gossiper.h"

#include <cmath>
#include <numeric>

#include "sotto/aggregate/vector_gossiper.h"
#include "sotto/core/floats.h"

namespace sotto {

std::unique_ptr<Codec> make_gossip_codec(const Recipe& recipe, const Layout& layout, std::shared_ptr<ThreadPool> pool,
                                         Contract::Input input) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(named(recipe.option, recipe.source_text) + ": " + why);
  };
  if (recipe.memory || recipe.aggregator) {
    refuse(input == Contract::Input::model
               ? "models are exchanged, so no memory and no aggregator can be used with it"
               : "what is left out is in the next difference, so no memory and no aggregator can be used with it; "
                 "leave them out");
  }
  auto codec = make_codec(recipe.stages, std::move(pool));
  if (codec->contract(layout).input < input) {
    refuse(input == Contract::Input::model ? "models are exchanged, and only none, f16 and bf16 keep enough of them; "
                                             "choco exchanges differences, and takes other codecs, too"
                                           : "differences of models are exchanged, and it is for gradients alone");
  }
  return codec;
}

Gossiper::Gossiper(const Recipe& codec, std::shared_ptr<const Topology> topology, std::shared_ptr<const Mixing> mixing,
                   Layout layout, int rank, std::shared_ptr<ThreadPool> pool, Contract::Input input,
                   std::uint16_t bucket)
    : codec_(make_gossip_codec(codec, layout, std::move(pool), input)),
      encoder_(codec_),
      topology_(std::move(topology)),
      mixing_(std::move(mixing)),
      layout_(std::move(layout)),
      rank_(rank),
      index_(bucket),
      room_(codec_->max_bytes(layout_, {0, layout_.size()})),
      opened_(codec_) {}

void Gossiper::mix(std::span<float> values, GossipNote& note, const Key& key, Communicator& communicator,
                   Timings& timings) {
  begin(values, note, key, timings);
  try {
    exchange(communicator, timings);
    finish(values, note, timings);
  } catch (const Error&) {
    take_back(values, note);
    throw;
  }
}

double Gossiper::share_of(const Graph& graph, int peer) const {
  const auto& out = graph.out(peer);
  const auto place = static_cast<std::size_t>(std::ranges::find(out, rank_) - out.begin());
  return mixing_->shares(graph, peer).sent.at(place);
}

double Gossiper::received_share() const {
  const Graph& graph = topology_->round(0);
  double sum = mixing_->shares(graph, rank_).kept;
  for (const int peer : graph.in(rank_)) sum += share_of(graph, peer);
  return sum;
}

double Gossiper::prepare(const GossipNote& note, const Key& key) {
  key_ = key;
  said_ = note;
  const Shares shares = mixing_->shares(graph(), rank_);
  sent_ = std::accumulate(shares.sent.begin(), shares.sent.end(), 0.0);
  in_.clear();
  for (const int peer : graph().in(rank_)) in_.push_back({peer, share_of(graph(), peer), {}});
  std::ranges::sort(in_, {}, &Neighbour::rank);  // sums of floats depend on the order
  return shares.kept;
}

void Gossiper::begin(std::span<float> values, GossipNote& note, const Key& key, Timings& timings) {
  Timer timer;
  const double kept = prepare(note, key);
  if (graph().out(rank_).empty()) return;
  const Range whole{0, layout_.size()};
  Bucket held = bucket(values);
  encoder_.encode_alone(held, key, {&whole, 1}, {&own_, 1});
  opened_[0].open(own_.view(), layout_, whole);
  opened_[0].add_to(held, static_cast<float>(-sent_));
  note.weight = kept * note.weight;
  timings.encode += timer.lap();
}

void Gossiper::begin_difference(std::span<float> difference, std::span<float> known, std::span<float> sum,
                                GossipNote& note, const Key& key, Timings& timings) {
  Timer timer;
  const double kept = prepare(note, key);
  const Range whole{0, layout_.size()};
  encoder_.encode_alone(bucket(difference), key, {&whole, 1}, {&own_, 1});
  Bucket to_known = bucket(known), to_sum = bucket(sum);
  opened_[0].open(own_.view(), layout_, whole);
  opened_[0].add_to(to_known, 1);
  opened_[0].add_to(to_sum, static_cast<float>(kept));
  note.weight = kept * note.weight;
  timings.encode += timer.lap();
}

void Gossiper::exchange(Communicator& communicator, Timings& timings) {
  Timer timer;
  round_.clear();
  const auto bytes = [](GossipNote& note) { return std::as_writable_bytes(std::span(&note, 1)); };
  for (const int peer : graph().out(rank_)) {
    round_.send(peer, own_);
    round_.send(peer, bytes(said_));
  }
  for (Neighbour& neighbour : in_) {
    round_.receive(neighbour.rank, room_);
    round_.receive(neighbour.rank, bytes(neighbour.note));
  }
  round_.exchange(communicator);
  round_.open(communicator, {.generation = key_.generation, .step = key_.step, .bucket = index_},
              [&](const MessageView& message) {
                const auto number = std::ranges::find(in_, message.header().origin, &Neighbour::rank) - in_.begin();
                opened_[static_cast<std::size_t>(number) + 1].open(message, layout_, {0, layout_.size()});
              });
  for (const Neighbour& neighbour : in_) {
    if (!std::isfinite(neighbour.note.weight) || neighbour.note.weight <= 0) {
      throw WireError("rank " + std::to_string(rank_) + ": the weight that rank " + std::to_string(neighbour.rank) +
                      " sent at step " + std::to_string(key_.step) + " is no positive number");
    }
  }
  timings.network += timer.lap();
}

void Gossiper::finish(std::span<float> values, GossipNote& note, Timings& timings) {
  Timer timer;
  Bucket held = bucket(values);
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const Neighbour& neighbour = in_[i];
    opened_[i + 1].add_to(held, static_cast<float>(neighbour.share));
    note.weight += neighbour.share * neighbour.note.weight;
    note.stop_step = std::min(note.stop_step, neighbour.note.stop_step);
  }
  timings.decode += timer.lap();
}

void Gossiper::take_back(std::span<float> values, GossipNote& note) {
  Bucket held = bucket(values);
  if (sent_ > 0) opened_[0].add_to(held, static_cast<float>(sent_));
  note = said_;
}

VectorGossiper::VectorGossiper(Communicator& communicator, Topology topology, VectorGossiperOptions options)
    : communicator_(communicator),
      topology_(std::make_shared<const Topology>(std::move(topology))),
      options_(std::move(options)) {
  if (topology_->ranks() != communicator.size()) {
    throw ConfigError("the topology is one of " + std::to_string(topology_->ranks()) + " ranks, and there are " +
                      std::to_string(communicator.size()));
  }
  if (!options_.mixing) {
    options_.mixing = make_mixing({}, *topology_);
  } else if (const std::string problem = options_.mixing->problem(*topology_); !problem.empty()) {
    throw ConfigError(options_.mixing->text() + ": " + problem);
  }
  gossiper_of(0);  // refuses at once what cannot be used
}

Gossiper& VectorGossiper::gossiper_of(std::size_t size) {
  if (!gossiper_ || gossiper_->size() != size) {
    Layout layout({{"vector", 0, {static_cast<std::int64_t>(size)}}}, size);
    gossiper_.emplace(options_.codec, topology_, options_.mixing, std::move(layout), communicator_.rank(),
                      options_.pool);
  }
  return *gossiper_;
}

double VectorGossiper::mix(std::span<float> vector, double weight) {
  if (!(weight > 0) || !std::isfinite(weight)) {
    throw std::invalid_argument("a weight of " + std::to_string(weight) + ", where one above 0 is wanted");
  }
  const PlainFloats floats;
  communicator_.at_step(round_);
  const Key key{options_.seed, static_cast<std::uint16_t>(communicator_.rank()), 0, static_cast<std::uint32_t>(round_)};
  GossipNote note{.weight = weight};
  gossiper_of(vector.size()).mix(vector, note, key, communicator_, timings_);
  ++round_;
  return note.weight;
}

void VectorGossiper::average(std::span<float> vector, int rounds) {
  if (rounds < 0) throw std::invalid_argument(std::to_string(rounds) + " rounds");
  double weight = 1;
  const auto divide = [&] {
    if (weight == 1) return;
    for (float& value : vector) value = static_cast<float>(value / weight);
  };
  try {
    for (int i = 0; i < rounds; ++i) weight = mix(vector, weight);
  } catch (const Error&) {
    divide();
    throw;
  }
  divide();
}

}  // namespace sotto
