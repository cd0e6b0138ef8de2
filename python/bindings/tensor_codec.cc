#include "python/bindings/tensor_codec.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <array>

#include "sotto/aggregate/memory/memory.h"
#include "sotto/codec/method.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/core/plain_floats.h"
#include "sotto/core/table.h"

namespace sotto::python {
namespace {

constexpr std::uint32_t magic = 0x31546F73;  // "soT1"
constexpr std::array types{DType::f32, DType::f16, DType::bf16};
constexpr std::size_t max_dims = 64;

// Magic, type, number of dimensions, two bytes of zero; the dimensions; the CRC-32 of all that.
std::size_t head_bytes(std::size_t dims) { return 8 + 8 * dims + 4; }

Layout layout_of(const std::vector<std::int64_t>& shape) {
  Segment segment{"tensor", 0, shape};
  const std::size_t size = segment.numel();
  return {{std::move(segment)}, size};
}

std::string codec_of(const std::string& sentence) {
  const Method method = parse_method("codec", sentence, names_of(memory_table()));
  if (method.memory.empty()) return method.codec;
  throw ConfigError(
      fmt::format("codec `{}`: `{}` remembers what was not sent from one step to the next; a single "
                  "message has no memory. Leave it out, or use sotto.compress",
                  sentence, method.memory));
}

}  // namespace

TensorCodec::TensorCodec(const std::string& sentence, int threads)
    : codec_(make_codec("codec", codec_of(sentence), std::make_shared<Workers>(threads))) {}

Contract TensorCodec::contract(const std::vector<std::int64_t>& shape) const {
  const std::lock_guard lock(mutex_);
  return codec_->contract(layout_of(shape));
}

std::vector<std::byte> TensorCodec::encode(const TensorHead& head, std::span<float> values, std::uint64_t seed,
                                           std::uint32_t step) {
  const PlainFloats floats;
  const std::lock_guard lock(mutex_);
  const Layout layout = layout_of(head.shape);
  const Bucket bucket{values, &layout, 0};
  const Range whole{0, values.size()};
  std::vector<float> agreed(codec_->agreed_count(layout));
  codec_->propose(bucket, agreed);
  codec_->encode(bucket, Key{seed, 0, 0, step}, agreed, {&whole, 1}, {&message_, 1});

  std::vector<std::byte> bytes(head_bytes(head.shape.size()) + message_.bytes().size());
  ByteWriter writer(bytes);
  writer.put(magic);
  writer.put(static_cast<std::uint8_t>(std::ranges::find(types, head.type) - types.begin()));
  writer.put(static_cast<std::uint8_t>(head.shape.size()));
  writer.put(std::uint16_t{0});
  for (const std::int64_t size : head.shape) writer.put(size);
  writer.put(libdeflate_crc32(0, bytes.data(), writer.used()));
  writer.put_bytes(message_.bytes());
  return bytes;
}

TensorHead TensorCodec::read_head(std::span<const std::byte> bytes, std::size_t limit) {
  ByteReader reader(bytes);
  if (reader.get<std::uint32_t>("head") != magic) throw WireError("these bytes were not made by sotto.Codec.encode");
  const auto type = reader.get<std::uint8_t>("type");
  const auto dims = reader.get<std::uint8_t>("number of dimensions");
  const auto zero = reader.get<std::uint16_t>("head");
  if (type >= types.size() || dims > max_dims || zero != 0) throw WireError("the head of the tensor is damaged");
  TensorHead head{types[type], {}};
  for (std::size_t i = 0; i < dims; ++i) head.shape.push_back(reader.get<std::int64_t>("shape"));
  if (reader.get<std::uint32_t>("checksum of the head") != libdeflate_crc32(0, bytes.data(), head_bytes(dims) - 4)) {
    throw WireError("the head of the tensor is damaged: wrong checksum");
  }
  constexpr std::uint64_t most = std::uint64_t{1} << 32;  // more than fit in a message; its square is 2^64
  std::uint64_t product = 1;
  for (const std::int64_t size : head.shape) {
    if (size < 0 || static_cast<std::uint64_t>(size) >= most) {
      throw WireError(fmt::format("the head of the tensor says that a dimension is {}", size));
    }
    product = std::min(product * static_cast<std::uint64_t>(size), most);
  }
  if (product > std::min<std::uint64_t>(limit, most - 1)) {
    throw WireError(fmt::format("the message announces more than {} elements, the limit", limit));
  }
  return head;
}

void TensorCodec::decode(std::span<const std::byte> bytes, std::span<float> values) const {
  const PlainFloats floats;
  const TensorHead head = read_head(bytes, values.size());
  const auto body = bytes.subspan(head_bytes(head.shape.size()));
  const std::lock_guard lock(mutex_);
  const Layout layout = layout_of(head.shape);
  const MessageView message = MessageView::parse(body);
  if (message.size() != body.size()) {
    throw WireError(fmt::format("{} bytes too many after the message", body.size() - message.size()));
  }
  std::ranges::fill(values, 0.0F);
  Bucket bucket{values, &layout, 0};
  codec_->add_decoded(message, {0, values.size()}, 1.0F, bucket);
}

}  // namespace sotto::python
