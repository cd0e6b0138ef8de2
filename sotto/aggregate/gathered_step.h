#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/round.h"

namespace sotto {

// What one step of `gather` predicts for the aggregators that could replace it. All numbers are for the whole group,
// and the same on every rank.
struct Forecast {
  double gather = 0;          // bytes that a rank sends per step, on average
  double scatter_reduce = 0;  // the same, for the rank that sends most
  double sparse = 0;          // bytes that a rank sends, roughly; 0 if it cannot be used
  double steps = 1;           // SGD steps with scatter_reduce that achieve as much as one with gather
};

// Whether `sparse` can be used. It needs a memory: without one, entries that owners do not keep would be lost.
bool sparse_can_be_had(const AggregatorParts& parts);

// Watches gather until it has seen every bucket once. That takes one step, or several if each exchanges only some
// buckets. It also encodes this rank's chunk of each mean, as scatter_reduce would, to learn the bytes and the error of
// the second encoding.
//
// Steps: let m be the mean that gather made, and C(m) its second encoding. At the best learning rate, the gain of an
// SGD step is proportional to cos^2 of the angle between the wanted direction and the one taken. The second encoding
// thus turns one step into 1 / cos^2(m, C(m)) = |m|^2 |C(m)|^2 / <m, C(m)>^2 steps. If the codec is unbiased, these are
// 1 + V steps, with the relative variance V = |C(m) - m|^2 / |m|^2. If it is a selection, they are 1 / (the share of
// |m|^2 that it keeps). The error of the first encoding is in m already, and is the same for both aggregators.
class GatheredStep {
 public:
  explicit GatheredStep(const AggregatorParts& parts);
  // `mean` is what gather made of a bucket in the step of `key`, for which this rank sent `bytes_sent` bytes.
  void add(const Bucket& mean, const Key& key, std::uint64_t bytes_sent);
  bool complete() const;  // whether every bucket was seen
  // Collective. REQUIRES complete().
  Forecast forecast(Communicator& communicator) const;

 private:
  struct Seen {
    bool once = false;                                   // the bucket was seen
    double gathered = 0;                                 // bytes of this rank's message
    double second = 0;                                   // bytes of the message for this rank's chunk of the mean
    double mean_mean = 0, sent_sent = 0, mean_sent = 0;  // inner products of m and C(m) over this rank's chunk
  };
  void encode_again(const Bucket& mean, const Key& key, Seen& seen);
  void encode_piece(const Bucket& piece, const Key& key, Seen& seen);

  const AggregatorParts& parts_;
  std::shared_ptr<Codec> codec_;  // its own, because a codec may keep a state that depends on its inputs
  Encoder encoder_;
  std::unique_ptr<MessageReader> opened_;
  std::vector<Seen> seen_;  // by bucket
  Message message_;
  std::vector<float> sent_;
};

}  // namespace sotto
