#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/chunks.h"
#include "sotto/aggregate/encoder.h"
#include "sotto/aggregate/opened_messages.h"
#include "sotto/aggregate/round.h"
#include "sotto/codec/scratch.h"

namespace sotto {

// How a bucket is shared out: a chunk for each rank, which owns it.
struct Cut {
  int index = 0;                        // of the bucket
  std::size_t own = 0;                  // number of this rank's chunk
  std::vector<Range> chunks;            // in the bucket
  std::vector<Layout> layouts;          // of each chunk as a bucket of its own
  std::size_t room = 0;                 // for a rank's message of the own chunk
  std::vector<std::size_t> mean_rooms;  // for the message of each chunk's mean
  Range chunk() const { return chunks[own]; }
};

// A rank encodes twice in a step: a mean with other random numbers than its own vector.
Key key_of_mean(Key key);

// Two rounds of messages through the owners of chunks: each rank sends what it has of a chunk to its owner, who sums
// that in rank order, and sends what becomes of the sum, encoded again, to all. Replicas stay bit-identical, since each
// rank decodes its own messages, too.
class Owners {
 public:
  // `share`: of a rank's vector in what owners sum. A mean is encoded by an instance of its own, since a codec may keep
  // state of what it encodes.
  Owners(const AggregatorParts& parts, std::shared_ptr<Codec> codec, float share);

  Cut cut(const Layout& layout, int bucket, std::vector<Range> chunks) const;

  // To the owners: this rank's messages.
  void send(const Bucket& prepared, const Key& key, const Cut& cut, Communicator& communicator, Timings& timings);
  // The sum of what all ranks sent of the own chunk, which is a bucket of its own from here on. It is made beside the
  // gradient, so that a failure leaves that as it was. WireError, before anything is decoded.
  Bucket sum(const Bucket& bucket, const Key& key, const Cut& cut, const Communicator& communicator);
  // Encodes what became of the sum, and sends it to all: `bucket` is what all of them sent, once all was checked.
  void spread(const Bucket& mean, Bucket& bucket, const Key& key, const Cut& cut, Communicator& communicator,
              Timings& timings);

  // After send(): what this rank sent of all chunks, which is all that becomes of its vector.
  class SentChunks final : public Sent {
   public:
    explicit SentChunks(std::span<const std::unique_ptr<Opened>> chunks) : chunks_(chunks) {}
    void add_to(Bucket& out, float scale) override {
      for (const auto& chunk : chunks_) chunk->add_to(out, scale);
    }
    void clear_chosen(Bucket& out) override {
      for (const auto& chunk : chunks_) chunk->clear_chosen(out);
    }

   private:
    std::span<const std::unique_ptr<Opened>> chunks_;
  };
  // `layout` is that of the whole bucket.
  SentChunks sent(const Layout& layout, const Cut& cut);
  // After spread(): mean = mean - what was sent of it.
  void subtract_sent(Bucket& mean, const Cut& cut);
  // After spread(): out = 0 at the elements that messages of means chose (Sent::clear_chosen).
  void clear_spread(Bucket& out, const Cut& cut);

  // As many floats as a bucket has: those in which sum() was made, whose result is lost.
  std::span<float> room(std::size_t values) { return sum_.room(values); }
  Codec& codec() { return *codec_; }
  Codec& mean_codec() { return *mean_codec_; }

 private:
  std::size_t chunk_of_peer(const Cut& cut, int peer) const {
    return static_cast<std::size_t>(chunk_of(peer, cut.index, ranks_));
  }
  // Other ranks, beginning with the next one, so that no two begin with the same receiver.
  template <class F>
  void for_each_peer(F&& f) const {
    for (int i = 1; i < ranks_; ++i) f((rank_ + i) % ranks_);
  }
  std::exception_ptr encode_mean(const Bucket& mean, const Key& key, const Cut& cut);
  void send_to_all(const Cut& cut, Communicator& communicator);
  void decode_means(Bucket& bucket, const Key& key, const Cut& cut, const Communicator& communicator);

  int rank_, ranks_;
  float share_;
  std::shared_ptr<Codec> codec_, mean_codec_;
  Encoder encoder_, mean_encoder_;
  std::vector<Message> own_;  // one a chunk
  Message own_mean_;
  OpenedMessages sent_;    // this rank's, by chunk
  OpenedMessages offers_;  // of the own chunk, by rank
  OpenedMessages means_;   // by chunk
  Scratch<float> sum_;
  Round round_;
};

}  // namespace sotto
