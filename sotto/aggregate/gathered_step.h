#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/encoder.h"

namespace sotto {

// What one step of `gather` says about the aggregators that could take its place. All numbers are those of the whole
// group, and the same on every rank.
struct Forecast {
  double gather = 0;          // bytes that a rank sends in a step, on average
  double scatter_reduce = 0;  // from the rank that sends most
  double sparse = 0;          // 0 where it cannot be had
  double steps = 1;           // of SGD with scatter_reduce, for each one with gather
};

// Without a memory, what its owners do not keep would be lost beside what a rank does not choose.
bool sparse_can_be_had(const AggregatorParts& parts);

// Watches gather, bucket by bucket, until a step has all of them. It also encodes its own chunk of each mean, as
// scatter_reduce would, so the bytes and the error of the second encoding are those of a real mean.
//
// Steps: let m be the mean that gather made, and C(m) its second encoding. What SGD gains in a step, at the rate that
// suits it best, is in proportion to cos^2 of the angle between the direction that is wanted and the one that it takes.
// So the second encoding makes 1 / cos^2(m, C(m)) = |m|^2 |C(m)|^2 / <m, C(m)>^2 steps of one. For an unbiased codec
// that is 1 + |C(m) - m|^2 / |m|^2, the relative variance that it adds; for a selection it is 1 / (what it keeps of
// |m|^2). The first encoding is in m already, and is the same both ways.
class GatheredStep {
 public:
  explicit GatheredStep(const AggregatorParts& parts);
  // `mean` is what gather made of a bucket in the step of `key`, for which this rank sent so many bytes. What was seen
  // of an earlier step is forgotten.
  void add(const Bucket& mean, const Key& key, std::uint64_t bytes_sent);
  bool complete() const;  // every bucket of one step was seen
  // Collective. REQUIRES complete().
  Forecast forecast(Communicator& communicator) const;

 private:
  struct Seen {
    bool now = false;                                    // in this step
    double gathered = 0;                                 // bytes of the own message
    double second = 0;                                   // bytes of the message of the own chunk's mean
    double mean_mean = 0, sent_sent = 0, mean_sent = 0;  // products of the own chunk of m and of C(m)
  };
  void encode_again(const Bucket& mean, const Key& key, Seen& seen);
  void encode_piece(const Bucket& piece, const Key& key, Seen& seen);

  const AggregatorParts& parts_;
  std::shared_ptr<Codec> codec_;  // a codec may keep state of what it encodes
  Encoder encoder_;
  std::unique_ptr<Opened> opened_;
  std::optional<std::uint64_t> step_;
  std::vector<Seen> seen_;  // by bucket
  Message message_;
  std::vector<float> sent_;
};

}  // namespace sotto
