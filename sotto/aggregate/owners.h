#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/round.h"
#include "sotto/codec/codec.h"
#include "sotto/codec/scratch.h"
#include "sotto/core/layout.h"

namespace sotto {

// Cuts a bucket into one chunk per rank, as evenly as the codec's grain allows: each border is the allowed place
// nearest to an even cut. Where the grain is an element, these places are multiples of Layout::alignment. Some chunks
// are empty if there are fewer pieces than ranks.
std::vector<Range> cut_chunks(const Layout& layout, const Contract& contract, int ranks);

// A chunk as a separate bucket. A segment that is cut keeps its name, and its rows if the chunk has whole ones;
// otherwise its part becomes a single row.
Layout chunk_layout(const Layout& layout, Range chunk);

// The chunk that a rank owns. It rotates from bucket to bucket, so that large segments do not all fall to one rank.
inline int chunk_of(int owner, int bucket, int ranks) { return (owner + ranks - bucket % ranks) % ranks; }

// How a bucket is divided: each rank owns one chunk.
struct Cut {
  int index = 0;                        // of the bucket
  std::size_t own = 0;                  // index of this rank's chunk
  std::vector<Range> chunks;            // in the bucket
  std::vector<Layout> layouts;          // of each chunk, as a separate bucket
  std::size_t room = 0;                 // bytes of the largest message for this rank's chunk
  std::vector<std::size_t> mean_rooms;  // bytes of the largest message for each chunk's mean
  Range chunk() const { return chunks[own]; }
};

// The key for encoding a mean. A rank encodes twice in a step, and both times need different random numbers.
Key key_of_mean(Key key);

// Two rounds of messages through the owners of chunks. Each rank sends its part of a chunk to the owner. The owner sums
// the parts in rank order. The caller makes a mean of the sum, which the owner encodes again and sends to all. Replicas
// stay bit-identical, because each rank decodes its own messages, too.
class Owners {
 public:
  // Owners sum each rank's vector times `share`. Means have a separate codec, because a codec may keep a state that
  // depends on its inputs.
  Owners(const AggregatorParts& parts, std::shared_ptr<Codec> codec, float share);

  Cut cut(const Layout& layout, int bucket, std::vector<Range> chunks) const;

  // Sends this rank's messages to the owners, and receives those for its own chunk.
  void exchange(const Bucket& prepared, const Key& key, const Cut& cut, Communicator& communicator, Timings& timings);
  // The sum of all ranks' parts of this rank's chunk, as a bucket. It is in a separate buffer, so that a failure leaves
  // the gradient unchanged. A bad message is a WireError; then nothing was decoded.
  Bucket sum(const Bucket& bucket, const Key& key, const Cut& cut, const Communicator& communicator);
  // Encodes `mean`, which the caller made of the sum, and sends it to all. Checks the messages of all owners, and then
  // decodes them into `bucket`.
  void spread(const Bucket& mean, Bucket& bucket, const Key& key, const Cut& cut, Communicator& communicator,
              Timings& timings);

  // After exchange(): the vector that this rank sent, over all chunks.
  class SentChunks final : public Sent {
   public:
    explicit SentChunks(std::span<const std::unique_ptr<MessageReader>> chunks) : chunks_(chunks) {}
    void add_to(Bucket& out, float scale) override {
      for (const auto& chunk : chunks_) chunk->add_to(out, scale);
    }
    void clear_chosen(Bucket& out) override {
      for (const auto& chunk : chunks_) chunk->clear_chosen(out);
    }

   private:
    std::span<const std::unique_ptr<MessageReader>> chunks_;
  };
  // `layout` describes the whole bucket.
  SentChunks sent(const Layout& layout, const Cut& cut);
  // After spread(): subtracts from `mean` the part of it that was sent.
  void subtract_sent(Bucket& mean, const Cut& cut);
  // After spread(): out = 0 at the elements that the messages of means chose (Sent::clear_chosen).
  void clear_spread(Bucket& out, const Cut& cut);

  // Room for `values` floats. Overwrites the result of sum(), which has the same room.
  std::span<float> sum_buffer(std::size_t values) { return sum_.room(values); }
  Codec& codec() { return *codec_; }
  Codec& mean_codec() { return *mean_codec_; }

 private:
  std::size_t chunk_of_peer(const Cut& cut, int peer) const {
    return static_cast<std::size_t>(chunk_of(peer, cut.index, ranks_));
  }
  // Visits all other ranks, beginning with the next one, so that no two ranks begin with the same receiver.
  template <class F>
  void for_each_peer(F&& f) const {
    for (int i = 1; i < ranks_; ++i) f((rank_ + i) % ranks_);
  }
  std::exception_ptr encode_mean(const Bucket& mean, const Key& key, const Cut& cut);
  void exchange_means(const Cut& cut, Communicator& communicator);
  void decode_means(Bucket& bucket, const Key& key, const Cut& cut, const Communicator& communicator);

  int rank_, ranks_;
  float share_;
  std::shared_ptr<Codec> codec_, mean_codec_;
  Encoder encoder_, mean_encoder_;
  std::vector<Message> own_;  // one per chunk
  Message own_mean_;
  OpenedMessages sent_;      // this rank's messages, by chunk
  OpenedMessages received_;  // messages for this rank's chunk, by sender
  OpenedMessages means_;     // messages of means, by chunk
  Scratch<float> sum_;
  Round round_;
};

}  // namespace sotto
