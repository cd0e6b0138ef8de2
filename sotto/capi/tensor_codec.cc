#include "sotto/capi/tensor_codec.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <array>

#include "sotto/aggregate/recipe.h"
#include "sotto/core/bytes.h"
#include "sotto/core/floats.h"

namespace sotto {
namespace {

constexpr std::uint32_t magic = 0x31546F73;  // "soT1"
constexpr std::array types{DType::f32, DType::f16, DType::bf16};
constexpr std::size_t max_dims = 64;

// A head is: magic, type, number of dimensions, two zero bytes; the dimensions; the CRC-32 of all these.
std::size_t head_bytes(std::size_t dims) { return 8 + 8 * dims + 4; }

Layout layout_of(const std::vector<std::int64_t>& shape) {
  Segment segment{"tensor", 0, shape};
  const std::size_t size = segment.numel();
  return {{std::move(segment)}, size};
}

// The part of the tensor in each message: one part, unless the tensor is too long for a message.
std::vector<BucketPlan> plans_of(const std::vector<std::int64_t>& shape, std::size_t most) {
  return plan_buckets(layout_of(shape), std::numeric_limits<std::size_t>::max(), most);
}

StageSpecs codec_of(const std::string& expression) {
  const Recipe recipe = read_recipe(parse_expression("codec", expression));
  const auto refuse = [&](const std::string& why) { throw ConfigError(named("codec", expression) + ": " + why); };
  if (recipe.by_itself()) {
    refuse(fmt::format("`{}` is made by all ranks together; a single message is of one", recipe.aggregator.text()));
  }
  if (recipe.memory) {
    refuse(
        fmt::format("`{}` remembers what was not sent from one step to the next; a single message has no memory. "
                    "Leave it out, or use sotto.compress",
                    recipe.memory.text()));
  }
  return recipe.stages;
}

}  // namespace

TensorCodec::TensorCodec(const std::string& expression, int threads, std::size_t most)
    : codec_(make_codec(codec_of(expression), std::make_shared<ThreadPool>(threads))),
      opened_(codec_->make_opened()),
      text_(codec_->traits().text),
      most_(most) {}

Contract TensorCodec::contract(const std::vector<std::int64_t>& shape) const {
  const Lock lock(mutex_);
  return codec_->contract(layout_of(shape));
}

std::vector<std::byte> TensorCodec::encode(const TensorHead& head, std::span<float> values, std::uint64_t seed,
                                           std::uint32_t step) {
  const PlainFloats floats;
  const Lock lock(mutex_);
  std::vector<std::byte> bytes(head_bytes(head.shape.size()));
  ByteWriter writer(bytes);
  writer.put(magic);
  writer.put(static_cast<std::uint8_t>(std::ranges::find(types, head.type) - types.begin()));
  writer.put(static_cast<std::uint8_t>(head.shape.size()));
  writer.put(std::uint16_t{0});
  for (const std::int64_t size : head.shape) writer.put(size);
  writer.put(libdeflate_crc32(0, bytes.data(), writer.used()));

  const auto plans = plans_of(head.shape, most_);
  for (std::size_t b = 0; b < plans.size(); ++b) {
    const auto& [first, last, range, layout] = plans[b];
    const Bucket bucket{values.subspan(range.begin, range.size()), &layout, static_cast<std::uint16_t>(b)};
    const Range whole{0, range.size()};
    std::vector<float> agreed(codec_->agreed_count(layout));
    codec_->propose(bucket, agreed);
    codec_->encode(bucket, Key{.seed = seed, .step = step, .alone = true}, agreed, {&whole, 1}, {&message_, 1});
    bytes.insert(bytes.end(), message_.bytes().begin(), message_.bytes().end());
  }
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
  constexpr std::uint64_t most_a_dim = (std::uint64_t{1} << 32) - 1, most = std::numeric_limits<std::int64_t>::max();
  std::uint64_t product = 1;  // or `most`, if it is larger
  for (const std::int64_t size : head.shape) {
    const auto times = static_cast<std::uint64_t>(size);
    if (times > most_a_dim) throw WireError(fmt::format("the head of the tensor says that a dimension is {}", size));
    product = times > 0 && product > most / times ? most : product * times;
  }
  if (product > std::min<std::uint64_t>(limit, most - 1)) {
    throw WireError(fmt::format("the message announces more than {} elements, the limit", limit));
  }
  return head;
}

void TensorCodec::decode(std::span<const std::byte> bytes, std::span<float> values) const {
  const PlainFloats floats;
  const TensorHead head = read_head(bytes, values.size());
  auto body = bytes.subspan(head_bytes(head.shape.size()));
  const Lock lock(mutex_);
  const auto plans = plans_of(head.shape, most_);
  std::vector<MessageView> messages;
  for (std::size_t b = 0; b < plans.size(); ++b) {
    messages.push_back(MessageView::parse(body));
    if (messages[b].header().bucket != b) throw WireError(fmt::format("message {} has another place in its tensor", b));
    body = body.subspan(messages[b].size());
  }
  if (!body.empty()) throw WireError(fmt::format("{} bytes too many after the message", body.size()));
  std::ranges::fill(values, 0.0F);
  for (std::size_t b = 0; b < plans.size(); ++b) {
    const auto& [first, last, range, layout] = plans[b];
    Bucket bucket{values.subspan(range.begin, range.size()), &layout, static_cast<std::uint16_t>(b)};
    opened_->open(messages[b], layout, {0, range.size()});
    opened_->add_to(bucket, 1.0F);
  }
}

}  // namespace sotto
