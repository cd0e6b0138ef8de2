#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/core/dtype.h"
#include "sotto/core/layout.h"
#include "sotto/core/thread.h"

namespace sotto {

struct TensorHead {
  DType type = DType::f32;  // f32, f16 or bf16
  std::vector<std::int64_t> shape;
  std::size_t numel() const { return Segment{"", 0, shape}.numel(); }
};

// Turns whole tensors into bytes that can be decoded without anything else, and back. The bytes are a head with type
// and shape, and a message of the codec (docs/wire/README.md), or several if the tensor is too long for one. Any thread
// may call it; calls wait for each other.
class TensorCodec {
 public:
  // ConfigError unless the text is a codec without memory. A message has at most `most` elements: fewer than by default
  // in tests, which have no larger tensors.
  TensorCodec(const std::string& expression, int threads, std::size_t most = most_elements);

  const std::string& text() const { return text_; }
  Contract contract(const std::vector<std::int64_t>& shape) const;

  // `values` holds numel() floats. The random numbers depend on seed and step alone.
  std::vector<std::byte> encode(const TensorHead& head, std::span<float> values, std::uint64_t seed,
                                std::uint32_t step);

  // WireError unless the bytes begin with a head of at most `limit` elements: bytes from outside may announce any
  // number.
  static TensorHead read_head(std::span<const std::byte> bytes, std::size_t limit);
  // `values` holds numel() floats of the head that these bytes begin with.
  void decode(std::span<const std::byte> bytes, std::span<float> values) const;

 private:
  mutable Mutex mutex_;
  std::unique_ptr<Codec> codec_ SOTTO_GUARDED_BY(mutex_);
  std::unique_ptr<MessageReader> opened_ SOTTO_GUARDED_BY(mutex_);
  Message message_ SOTTO_GUARDED_BY(mutex_);
  std::string text_;
  std::size_t most_;
};

}  // namespace sotto
