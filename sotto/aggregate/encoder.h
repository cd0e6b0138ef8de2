#pragma once

#include <memory>
#include <span>

#include "sotto/aggregate/aggregator.h"
#include "sotto/codec/scratch.h"

namespace sotto {

// A codec, together with the numbers that it wants all ranks to agree on before any of them encodes.
class Encoder {
 public:
  explicit Encoder(std::shared_ptr<Codec> codec) : codec_(std::move(codec)) {}
  // One message per part of what every rank has of a bucket. Collective where the codec asks for such numbers.
  void encode(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out,
              Communicator& communicator, Timings& timings);
  // Of a bucket that no other rank encodes.
  void encode_alone(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out);

 private:
  std::span<float> proposed(const Bucket& bucket);  // this rank's numbers

  std::shared_ptr<Codec> codec_;
  Scratch<float> agreed_;
};

}  // namespace sotto
