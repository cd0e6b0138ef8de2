#include "sotto/aggregate/scatter_reduce.h"

#include <algorithm>
#include <exception>

#include "sotto/aggregate/chunks.h"
#include "sotto/aggregate/encoder.h"
#include "sotto/aggregate/round.h"
#include "sotto/codec/scratch.h"
#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/core/timer.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

// Own messages of all chunks of a bucket.
class SentChunks final : public Sent {
 public:
  SentChunks(const Codec& codec, std::span<const Message> messages, std::span<const Range> chunks)
      : codec_(codec), messages_(messages), chunks_(chunks) {}
  void add_to(Bucket& out, float scale) const override {
    for (std::size_t i = 0; i < chunks_.size(); ++i) codec_.add_decoded(messages_[i].view(), chunks_[i], scale, out);
  }
  void clear_chosen(Bucket& out) const override {
    for (std::size_t i = 0; i < chunks_.size(); ++i) codec_.clear_chosen(messages_[i].view(), chunks_[i], out);
  }

 private:
  const Codec& codec_;
  std::span<const Message> messages_;
  std::span<const Range> chunks_;
};

class ScatterReduce final : public Aggregator {
 public:
  enum class Divide : std::uint8_t { yes, no };
  ScatterReduce(AggregatorParts parts, std::string_view name, Divide divide)
      : parts_(std::move(parts)),
        name_(name),
        share_(divide == Divide::yes ? 1.0F / static_cast<float>(parts_.ranks) : 1.0F),
        keeps_(divide == Divide::yes && parts_.memory->remembers()),
        encoder_(parts_.codec),
        mean_codec_(make_codec("scatter_reduce", parts_.codec->sentence(), parts_.workers)),
        mean_encoder_(mean_codec_),
        own_(static_cast<std::size_t>(parts_.ranks)) {
    std::size_t owned = 0;
    for (const BucketPlan& plan : parts_.buckets) {
      Cut& cut = cuts_.emplace_back();
      cut.index = static_cast<int>(cuts_.size()) - 1;
      cut.own = static_cast<std::size_t>(chunk_of(parts_.rank, cut.index, parts_.ranks));
      cut.chunks = cut_chunks(plan.layout, parts_.codec->contract(plan.layout), parts_.ranks);
      cut.room = parts_.codec->max_bytes(plan.layout, cut.chunk());
      for (const Range chunk : cut.chunks) {
        const Layout& layout = cut.layouts.emplace_back(chunk_layout(plan.layout, chunk));
        cut.mean_rooms.push_back(mean_codec_->max_bytes(layout, {0, layout.size()}));
      }
      cut.error = owned;
      owned += cut.chunk().size();
    }
    if (keeps_) error_.resize(owned);
  }

  std::string_view name() const override { return name_; }

  void average(Bucket& bucket, const Key& key, Communicator& communicator, Phases& phases) override {
    const Cut& cut = cuts_.at(bucket.index);
    Timer timer;
    Bucket prepared = parts_.memory->prepare(bucket, key);
    if (const float change = parts_.memory->change_of_units(); keeps_ && change != 1) {
      kernels::scale(change, error_of(cut));
    }
    phases.encode += timer.lap();
    encoder_.encode(prepared, key, cut.chunks, own_, communicator, phases);
    timer.lap();
    send_to_owners(cut, communicator);
    phases.network += timer.lap();

    Bucket mean = mean_of_chunk(bucket, cut, key, communicator);
    phases.decode += timer.lap();
    const std::exception_ptr failure = encode_mean(mean, cut, key);
    phases.encode += timer.lap();
    send_to_all(cut, communicator);
    phases.network += timer.lap();
    if (failure) std::rethrow_exception(failure);

    decode_means(bucket, cut, key, communicator);
    if (parts_.memory->remembers()) {
      parts_.memory->settle(prepared, SentChunks(*parts_.codec, own_, cut.chunks));
      if (keeps_) settle_mean(mean, cut);
    }
    phases.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    parts_.memory->visit_state(visitor);
    parts_.codec->visit_state(visitor);
    ScopedState mean(visitor, "mean");
    if (keeps_) mean.visit("error", error_);
    mean_codec_->visit_state(mean);
  }

  // The mean owes error_; a memory owes the mean what it holds divided by the ranks.
  void retire() override {
    if (error_.empty()) return;
    for (const Cut& cut : cuts_) {
      const BucketPlan& plan = parts_.buckets[static_cast<std::size_t>(cut.index)];
      const Bucket owed{sum_.room(plan.range.size()), &plan.layout, static_cast<std::uint16_t>(cut.index)};
      std::ranges::fill(owed.values, 0.0F);
      const auto chunk = owed.values.subspan(cut.chunk().begin, cut.chunk().size());
      std::ranges::copy(error_of(cut), chunk.begin());
      kernels::scale(static_cast<float>(parts_.ranks), chunk);
      parts_.memory->hold(owed);
    }
    std::ranges::fill(error_, 0.0F);
  }

 private:
  // How a bucket is shared out.
  struct Cut {
    int index = 0;                        // of the bucket
    std::size_t own = 0;                  // number of this rank's chunk
    std::vector<Range> chunks;            // in the bucket
    std::vector<Layout> layouts;          // of each chunk as a bucket of its own
    std::size_t room = 0;                 // for a rank's message of the own chunk
    std::vector<std::size_t> mean_rooms;  // for the message of each chunk's mean
    std::size_t error = 0;                // where the own chunk begins in error_
    Range chunk() const { return chunks[own]; }
  };

  // What the second encoding of the own chunk left out. REQUIRES keeps_.
  std::span<float> error_of(const Cut& cut) { return std::span(error_).subspan(cut.error, cut.chunk().size()); }

  // Other ranks, beginning with the next one, so that no two begin with the same receiver.
  template <class F>
  void for_each_peer(F&& f) const {
    for (int i = 1; i < parts_.ranks; ++i) f((parts_.rank + i) % parts_.ranks);
  }
  std::size_t chunk_of_peer(const Cut& cut, int peer) const {
    return static_cast<std::size_t>(chunk_of(peer, cut.index, parts_.ranks));
  }

  void send_to_owners(const Cut& cut, Communicator& communicator) {
    round_.clear();
    for_each_peer([&](int peer) {
      const std::size_t chunk = chunk_of_peer(cut, peer);
      if (cut.chunks[chunk].size() > 0) round_.send(peer, own_[chunk]);
      if (cut.chunk().size() > 0) round_.receive(peer, cut.room);
    });
    round_.exchange(communicator);
  }

  // The mean of what all ranks sent of the own chunk, which is a bucket of its own from here on. It is made beside the
  // gradient, so that a failure leaves that as it was.
  Bucket mean_of_chunk(const Bucket& bucket, const Cut& cut, const Key& key, const Communicator& communicator) {
    round_.open(communicator,
                {.generation = key.generation,
                 .step = key.step,
                 .bucket = bucket.index,
                 .part = static_cast<std::uint16_t>(cut.own)},
                [&](const MessageView& message) { parts_.codec->check(message, *bucket.layout, cut.chunk()); });
    Bucket sum = bucket;
    sum.values = sum_.room(bucket.values.size());
    const auto values = sum.values.subspan(cut.chunk().begin, cut.chunk().size());
    std::ranges::fill(values, 0.0F);
    if (!values.empty()) {
      for (int rank = 0; rank < parts_.ranks; ++rank) {
        const MessageView message = rank == parts_.rank ? own_[cut.own].view() : round_.message(rank);
        parts_.codec->add_decoded(message, cut.chunk(), share_, sum);
      }
    }
    return {values, &cut.layouts[cut.own], bucket.index};
  }

  // A mean may be too large for the codec though no rank's own vector was: then all are told, who wait for it.
  std::exception_ptr encode_mean(Bucket& mean, const Cut& cut, const Key& key) {
    const Range whole{0, mean.values.size()};
    if (whole.size() == 0) return nullptr;
    if (keeps_) kernels::add(error_of(cut), mean.values);
    try {
      mean_encoder_.encode_alone(mean, mean_key(key), {&whole, 1}, {&own_mean_, 1});
      return nullptr;
    } catch (const NumericError& error) {
      const Header header{.generation = key.generation, .origin = key.rank, .step = key.step, .bucket = mean.index};
      Round::decline(own_mean_, header, cut.mean_rooms[cut.own], error.what());
      return std::current_exception();
    }
  }

  // A rank encodes twice in a step: with other random numbers.
  static Key mean_key(Key key) {
    Hash hash;
    hash.add("mean");
    hash.add(key.seed);
    key.seed = hash.value();
    return key;
  }

  void send_to_all(const Cut& cut, Communicator& communicator) {
    round_.clear();
    for_each_peer([&](int peer) {
      const std::size_t chunk = chunk_of_peer(cut, peer);
      if (cut.chunk().size() > 0) round_.send(peer, own_mean_);
      if (cut.chunks[chunk].size() > 0) round_.receive(peer, cut.mean_rooms[chunk]);
    });
    round_.exchange(communicator);
  }

  // All messages are checked before the first is decoded into the bucket.
  void decode_means(Bucket& bucket, const Cut& cut, const Key& key, const Communicator& communicator) {
    round_.open(communicator, {.generation = key.generation, .step = key.step, .bucket = bucket.index},
                [&](const MessageView& message) {
                  const Layout& layout = cut.layouts[chunk_of_peer(cut, message.header().origin)];
                  mean_codec_->check(message, layout, {0, layout.size()});
                });
    std::ranges::fill(bucket.values, 0.0F);
    for (std::size_t i = 0; i < cut.chunks.size(); ++i) {
      const Range chunk = cut.chunks[i];
      if (chunk.size() == 0) continue;
      Bucket part{bucket.values.subspan(chunk.begin, chunk.size()), &cut.layouts[i], bucket.index};
      const int owner = owner_of(static_cast<int>(i), cut.index, parts_.ranks);
      mean_codec_->add_decoded(i == cut.own ? own_mean_.view() : round_.message(owner), {0, chunk.size()}, 1, part);
    }
  }

  // `mean` holds what was offered: error and mean.
  void settle_mean(Bucket& mean, const Cut& cut) {
    if (mean.values.empty()) return;
    mean_codec_->add_decoded(own_mean_.view(), {0, mean.values.size()}, -1, mean);
    std::ranges::copy(mean.values, error_of(cut).begin());
  }

  AggregatorParts parts_;
  std::string_view name_;
  float share_;  // of a rank's vector in what owners encode
  bool keeps_;   // what the second encoding left out
  Encoder encoder_;
  std::shared_ptr<Codec> mean_codec_;  // of its own, since a codec may keep state of what it encodes
  Encoder mean_encoder_;
  std::vector<Cut> cuts_;     // by bucket
  std::vector<Message> own_;  // one a chunk
  Message own_mean_;
  std::vector<float> error_;  // what the second encoding of the own chunks left out, if it keeps that
  Scratch<float> sum_;
  Round round_;
};

}  // namespace

std::string scatter_reduce_suits(const Codec& /*codec*/, std::span<const BucketPlan> /*buckets*/) { return ""; }

std::unique_ptr<Aggregator> make_scatter_reduce(AggregatorParts parts) {
  return std::make_unique<ScatterReduce>(std::move(parts), "scatter_reduce", ScatterReduce::Divide::yes);
}

std::unique_ptr<Aggregator> make_scatter_reduce_sum(AggregatorParts parts, std::string_view name) {
  return std::make_unique<ScatterReduce>(std::move(parts), name, ScatterReduce::Divide::no);
}

}  // namespace sotto
