#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "sotto/capi/sotto.h"
#include "sotto/capi/tensor_codec.h"

namespace sotto {
namespace {

struct Freed {
  void operator()(sotto_codec* codec) const { sotto_codec_free(codec); }
};
using CodecPtr = std::unique_ptr<sotto_codec, Freed>;

CodecPtr codec(const char* text) {
  sotto_codec* made = nullptr;
  EXPECT_EQ(sotto_codec_create(text, 1, &made), SOTTO_OK) << sotto_last_error(0);
  return CodecPtr(made);
}

sotto_sink into(std::string& bytes) {
  return {[](void* to, const void* data, std::size_t size) {
            static_cast<std::string*>(to)->assign(static_cast<const char*>(data), size);
          },
          &bytes};
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i) + 0.5F);
  return values;
}

// The tensor as floats, by definition: an odometer over all indices.
template <class F>
void each(const sotto_tensor& tensor, F f) {
  std::vector<std::int64_t> at(tensor.dimensions, 0);
  std::size_t count = 1;
  for (std::size_t d = 0; d < tensor.dimensions; ++d) count *= static_cast<std::size_t>(tensor.shape[d]);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i, offset = 0;
    for (std::size_t d = tensor.dimensions; d-- > 0;) {
      offset += rest % static_cast<std::size_t>(tensor.shape[d]) * static_cast<std::size_t>(tensor.strides[d]);
      rest /= static_cast<std::size_t>(tensor.shape[d]);
    }
    f(i, offset);
  }
}

TEST(CapiCodec, MakesTheBytesOfTheLibrary) {
  for (const char* text : {"none", "qsgd(4)", "topk(0.1) | f16 | rans", "dct | int8"}) {
    const std::array<std::int64_t, 2> shape{40, 25};
    auto values = ramp(1000);
    const auto made = codec(text);
    std::string bytes;
    const sotto_tensor tensor{values.data(), SOTTO_F32, 2, shape.data(), nullptr};
    ASSERT_EQ(sotto_codec_encode(made.get(), &tensor, 7, 3, into(bytes)), SOTTO_OK) << sotto_last_error(0);
    TensorCodec own(text, 1);
    const auto wanted = own.encode({DType::f32, {40, 25}}, values, 7, 3);
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(bytes)), wanted)) << text;
    EXPECT_EQ(sotto_codec_text(made.get()), own.text());

    std::vector<float> decoded(1000), expected(1000);
    const sotto_tensor back{decoded.data(), SOTTO_F32, 2, shape.data(), nullptr};
    ASSERT_EQ(sotto_codec_decode(made.get(), bytes.data(), bytes.size(), &back), SOTTO_OK) << sotto_last_error(0);
    own.decode(wanted, expected);
    EXPECT_EQ(decoded, expected) << text;

    sotto_type type{};
    std::array<std::int64_t, SOTTO_MOST_DIMENSIONS> read{};
    std::size_t dimensions = 0;
    ASSERT_EQ(sotto_codec_head(bytes.data(), bytes.size(), 1000, &type, read.data(), &dimensions), SOTTO_OK);
    EXPECT_TRUE(type == SOTTO_F32 && dimensions == 2 && read[0] == 40 && read[1] == 25);
    EXPECT_EQ(sotto_codec_head(bytes.data(), bytes.size(), 999, &type, read.data(), &dimensions), SOTTO_WIRE_ERROR);
  }
}

// Each tensor has the values that it has when its elements are copied out one by one.
TEST(CapiCodec, TakesAnyStrides) {
  const auto made = codec("none");
  const std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> forms{
      {{}, {}},
      {{5}, {1}},
      {{5}, {3}},
      {{4, 6}, {6, 1}},
      {{4, 6}, {1, 4}},
      {{4, 6}, {10, 1}},
      {{2, 3, 4}, {1, 2, 6}},
      {{2, 3, 4}, {24, 8, 2}},
      {{3, 1, 2}, {2, 77, 1}},
      {{3, 4}, {0, 1}},
      {{0, 4}, {4, 1}},
      {{2, 0}, {1, 1}},
      {{1, 1}, {9, 9}},
      {{2, 2, 2, 2}, {8, 1, 4, 2}}};
  for (const auto& [shape, strides] : forms) {
    auto memory = ramp(200);
    const sotto_tensor tensor{memory.data(), SOTTO_F32, shape.size(), shape.data(), strides.data()};
    std::vector<float> wanted;
    each(tensor, [&](std::size_t, std::size_t offset) { wanted.push_back(memory[offset]); });
    std::string bytes;
    ASSERT_EQ(sotto_codec_encode(made.get(), &tensor, 1, 0, into(bytes)), SOTTO_OK) << sotto_last_error(0);
    std::vector<float> plain(wanted.size());
    const sotto_tensor dense{plain.data(), SOTTO_F32, shape.size(), shape.data(), nullptr};
    ASSERT_EQ(sotto_codec_decode(made.get(), bytes.data(), bytes.size(), &dense), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(plain, wanted);

    std::vector<float> strided(200, -7), expected(200, -7);
    const sotto_tensor back{strided.data(), SOTTO_F32, shape.size(), shape.data(), strides.data()};
    each(back, [&](std::size_t i, std::size_t offset) { expected[offset] = wanted[i]; });
    ASSERT_EQ(sotto_codec_decode(made.get(), bytes.data(), bytes.size(), &back), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(strided, expected) << "and nothing else is written";
  }
}

TEST(CapiCodec, TakesHalves) {
  const std::array<std::int64_t, 1> shape{4};
  std::array<std::uint16_t, 4> halves{0x3C00, 0xC000, 0x3555, 0x0000}, back{};  // 1, -2, 1/3, 0
  for (const sotto_type type : {SOTTO_F16, SOTTO_BF16}) {
    const auto made = codec("none");
    std::string bytes;
    const sotto_tensor tensor{halves.data(), type, 1, shape.data(), nullptr},
        to{back.data(), type, 1, shape.data(), nullptr};
    ASSERT_EQ(sotto_codec_encode(made.get(), &tensor, 1, 0, into(bytes)), SOTTO_OK) << sotto_last_error(0);
    ASSERT_EQ(sotto_codec_decode(made.get(), bytes.data(), bytes.size(), &to), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(back, halves);
  }
}

TEST(CapiCodec, RefusesWhatItCannotUse) {
  const auto made = codec("qsgd(4)");
  const std::array<std::int64_t, 1> four{4}, five{5}, negative{-1};
  std::array<float, 5> values{1, 2, 3, 4, 5};
  std::string bytes;
  const auto encode = [&](sotto_tensor tensor) { return sotto_codec_encode(made.get(), &tensor, 1, 0, into(bytes)); };
  EXPECT_EQ(encode({values.data(), SOTTO_F64, 1, four.data(), nullptr}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(encode({values.data(), static_cast<sotto_type>(99), 1, four.data(), nullptr}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(encode({nullptr, SOTTO_F32, 1, four.data(), nullptr}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(encode({values.data(), SOTTO_F32, 1, nullptr, nullptr}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(encode({values.data(), SOTTO_F32, 65, four.data(), nullptr}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(encode({values.data(), SOTTO_F32, 1, negative.data(), nullptr}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(encode({values.data(), SOTTO_F32, 1, four.data(), negative.data()}), SOTTO_CONFIG_ERROR);
  const std::array<std::int64_t, 3> huge{1LL << 40, 1LL << 40, 1LL << 40};
  EXPECT_EQ(encode({values.data(), SOTTO_F32, 3, huge.data(), nullptr}), SOTTO_CONFIG_ERROR);
  values[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(encode({values.data(), SOTTO_F32, 1, four.data(), nullptr}), SOTTO_NUMERIC_ERROR) << sotto_last_error(0);
  values[2] = 3;
  ASSERT_EQ(encode({values.data(), SOTTO_F32, 1, four.data(), nullptr}), SOTTO_OK);

  const auto decode = [&](const std::string& given, sotto_tensor tensor) {
    return sotto_codec_decode(made.get(), given.data(), given.size(), &tensor);
  };
  EXPECT_EQ(decode(bytes, {values.data(), SOTTO_F32, 1, five.data(), nullptr}), SOTTO_WIRE_ERROR);
  EXPECT_EQ(decode(bytes, {values.data(), SOTTO_F16, 1, four.data(), nullptr}), SOTTO_WIRE_ERROR);
  const sotto_tensor good{values.data(), SOTTO_F32, 1, four.data(), nullptr};
  EXPECT_EQ(decode("", good), SOTTO_WIRE_ERROR);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(decode(bytes.substr(0, length), good), SOTTO_WIRE_ERROR) << length;
  }
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(decode(damaged, good), SOTTO_WIRE_ERROR) << bit;
  }
  EXPECT_EQ(sotto_codec_encode(nullptr, &good, 1, 0, into(bytes)), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(sotto_codec_encode(made.get(), nullptr, 1, 0, into(bytes)), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(sotto_codec_decode(made.get(), nullptr, 9, &good), SOTTO_CONFIG_ERROR);
  sotto_codec_free(nullptr);
}

TEST(CapiCodec, SaysWhatIsWrongInEitherSpelling) {
  sotto_codec* made = nullptr;
  EXPECT_EQ(sotto_codec_create("topk(2)", 1, &made), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(made, nullptr);
  const std::string plain = sotto_last_error(0), marked = sotto_last_error(1);
  EXPECT_NE(plain.find("topk"), plain.npos) << plain;
  EXPECT_EQ(plain.find('\x02'), plain.npos);
  EXPECT_NE(marked.find("\x02"
                        "codec\x1f"),
            marked.npos)
      << marked;
  EXPECT_EQ(sotto_codec_create("ef | topk(0.1)", 1, &made), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(sotto_codec_create("none", -1, &made), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(sotto_codec_create("none", 1 << 30, &made), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(sotto_codec_create(nullptr, 1, &made), SOTTO_CONFIG_ERROR);
}

TEST(CapiCodec, SaysItsContract) {
  const std::array<std::int64_t, 1> shape{10000};
  sotto_contract contract{};
  ASSERT_EQ(sotto_codec_contract(codec("topk(0.25)").get(), shape.data(), 1, &contract, nullptr), SOTTO_OK);
  EXPECT_TRUE(contract.kind == SOTTO_CONTRACTION && contract.delta == 0.25) << contract.delta;
  ASSERT_EQ(sotto_codec_contract(codec("none").get(), shape.data(), 1, &contract, nullptr), SOTTO_OK);
  EXPECT_EQ(contract.kind, SOTTO_EXACT);
}

// The facts about a codec, by name.
std::map<std::string, std::string> facts(const char* codec, const char* aggregator = nullptr) {
  std::map<std::string, std::string> found;
  const std::array<std::int64_t, 1> shape{1000};
  const sotto_parameter parameter{"p", SOTTO_F32, 1, shape.data()};
  const sotto_visitor visitor{[](void* to, const sotto_value* value) {
                                auto& all = *static_cast<std::map<std::string, std::string>*>(to);
                                all[value->name].assign(static_cast<const char*>(value->data), value->count);
                              },
                              &found};
  EXPECT_EQ(sotto_codec_facts("rules", codec, aggregator, &parameter, 1, visitor), SOTTO_OK) << sotto_last_error(0);
  return found;
}

TEST(CapiCodec, TellsWhatUsersShouldKnow) {
  EXPECT_EQ(facts("qsgd(4)")["momentum"], "");
  EXPECT_EQ(facts("qsgd(4)")["warning"], "");
  EXPECT_NE(facts("topk(0.01)")["warning"], "") << "without a memory it loses much";
  EXPECT_EQ(facts("dgc")["optimiser"], "dgc");
  EXPECT_NE(facts("dgc")["momentum"], "");
  EXPECT_EQ(facts("ef | topk(0.5)", "gather")["dense codec"], "ef | f32");
  EXPECT_EQ(facts("ef | topk(0.5)")["memory"], "ef");
  EXPECT_EQ(sotto_codec_facts("rules", "topk(2)", nullptr, nullptr, 0, {}), SOTTO_CONFIG_ERROR);
  EXPECT_NE(std::string(sotto_last_error(0)).find("rules topk(2): ratio"), std::string::npos) << sotto_last_error(0);
}

// Normally that needs 2^29 elements; here a message takes 100.
TEST(CapiCodec, ALongTensorGoesInSeveralMessages) {
  const TensorHead head{DType::f32, {50, 7}};
  std::vector<float> x(350), y(350), each(350);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (const char* codec : {"f32", "int8", "qsgd(4)", "topk(0.2) | f16", "rans"}) {
    TensorCodec own(codec, 1, 100);
    auto bytes = own.encode(head, x, 1, 2);
    own.decode(bytes, y);
    for (std::size_t begin = 0; begin < 50; begin += 14) {  // whole rows, 98 elements
      const std::size_t rows = std::min<std::size_t>(14, 50 - begin);
      const TensorHead part{DType::f32, {static_cast<std::int64_t>(rows), 7}};
      const auto message = own.encode(part, std::span(x).subspan(begin * 7, rows * 7), 1, 2);
      own.decode(message, std::span(each).subspan(begin * 7, rows * 7));
    }
    // The random numbers of qsgd depend on the number of the message.
    if (codec != std::string_view("qsgd(4)")) {
      EXPECT_EQ(y, each) << codec;
    }
    const TensorCodec usual(codec, 1);
    EXPECT_THROW(usual.decode(bytes, y), WireError) << codec;
    for (const std::size_t fewer : {1, 60}) {
      EXPECT_THROW(own.decode(std::span(bytes).first(bytes.size() - fewer), y), WireError) << codec;
    }
    bytes.push_back(std::byte{0});
    EXPECT_THROW(own.decode(bytes, y), WireError) << codec;
  }
}

}  // namespace
}  // namespace sotto
