#pragma once

#include <memory>
#include <span>

#include "sotto/aggregate/aggregator.h"
#include "sotto/codec/scratch.h"

namespace sotto {

// A codec, together with the numbers that all ranks must agree on before any of them encodes.
class Encoder {
 public:
  explicit Encoder(std::shared_ptr<Codec> codec) : codec_(std::move(codec)) {}
  // Makes one message for each part of a bucket that every rank encodes. Collective if the codec needs such numbers.
  void encode(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out,
              Communicator& communicator, Timings& timings);
  // The same for a bucket that no other rank encodes.
  void encode_alone(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out);

 private:
  std::span<float> proposed(const Bucket& bucket);  // the numbers of this rank

  std::shared_ptr<Codec> codec_;
  Scratch<float> agreed_;
};

}  // namespace sotto
