#include "tests/codec/fixture.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>

#include "sotto/codec/stages.h"
#include "sotto/core/random.h"
#include "sotto/core/table.h"
#include "tests/codec/generated.h"
#include "tests/support/opened.h"

namespace sotto::testing {

namespace {

std::vector<std::string> list_sentences() {
  const std::vector<std::string> selects{"",
                                         "topk(0.1)",
                                         "topk(0.3, scope=bucket, dense=0)",
                                         "threshold(0.7, dense=0)",
                                         "threshold(relative=0.5, dense=7)",
                                         "sampled_topk(0.2, dense=0)"};
  const std::vector<std::string> transforms{"dct(8)",
                                            "dct2(5)",
                                            "fft(16)",
                                            "hadamard(4)",
                                            "count_sketch(3, 10%, 10%)",
                                            "count_sketch(columns=4, keep=3)",
                                            "count_min(3, 3, 5)",
                                            "projection(50%, 10%, 16)",
                                            "svd",
                                            "svd(reshape=halves)",
                                            "svd(rank=1, exact=1)"};
  const std::vector<std::string> further{"atomo(3, dense=0)",
                                         "atomo(20%, p=truncate, dense=0)",
                                         "atomo(20%, p=uniform, dense=0)",
                                         "atomo(p=max, dense=0)",
                                         "atomo(p=l2, dense=0)",
                                         "atomo(9, scope=bucket, dense=0)",
                                         "atomo(9, scope=bucket, dense=7)",
                                         "atomo(20%, dense=7)",
                                         "atomo(2)",
                                         "topk(0.1, dense=0)",
                                         "topk(0.3, scope=bucket, dense=7)",
                                         "sampled_topk(0.1, sample=0.5)",
                                         "sampled_topk(0.2, scope=bucket, dense=0)",
                                         "sampled_topk(0.1, sample=0.5, scope=bucket, dense=7)",
                                         "threshold(relative=0.5, scope=bucket, dense=0)",
                                         "threshold(keep=0.1, dense=0)",
                                         "threshold(keep=0.2, scope=bucket)",
                                         "threshold(drop=0.7, dense=0)",
                                         "threshold(drop=0.9, scope=bucket, dense=7)",
                                         "threshold(drop=1)",
                                         "randomk(0.2, dense=0)",
                                         "randomk(0.2, unbiased=true, dense=7)",
                                         "randomk(0.2, scope=bucket, dense=0)",
                                         "randomk(0.2, unbiased=true, scope=bucket)",
                                         "randomk(0.3, shared=false)",
                                         "randomk(0.3, shared=false, unbiased=true, dense=0)",
                                         "randomk(0.3, shared=false, unbiased=true, scope=bucket, dense=7)",
                                         "block(4, 0.3, dense=0)",
                                         "block(4, 0.3, scope=bucket, dense=7)",
                                         "block(3, 0.3, random, unbiased=true)",
                                         "block(5, 0.2, shared, dense=0)",
                                         "block(5, 0.2, shared, scope=bucket)",
                                         "block(2, 0.3, shared, unbiased=true, scope=bucket, dense=0)"};
  const std::vector<std::string> quantises{"",
                                           "f32",
                                           "f16",
                                           "bf16",
                                           "qsgd",
                                           "qsgd(bits=1, bucket=5)",
                                           "qsgd(bits=8, bucket=16, norm=l2)",
                                           "sign",
                                           "sign(block=8)",
                                           "signs",
                                           "int8",
                                           "int8(block=32, stochastic=true)",
                                           "uint8",
                                           "uint8(block=20, stochastic=true)",
                                           "int4",
                                           "int4(block=7, stochastic=true)",
                                           "terngrad",
                                           "terngrad(clip=0)",
                                           "terngrad(clip=0, pack=trits)",
                                           "terngrad(bits=3)",
                                           "terngrad(clip=0, bits=2)",
                                           "fp8",
                                           "fp8(e5m2, block=20)",
                                           "natural",
                                           "adaptive",
                                           "adaptive(error=0.05, bits=5, bucket=20)",
                                           "clusters(c=2, buckets=40, raw=5)",
                                           "clusters(c=5, buckets=60, least=2, percentile=85, raw=0, sizes=density)",
                                           "clusters(c=1, percentile=100, decode=centre, raw=0)",
                                           "clusters(c=3, decode=centre, raw=2)",
                                           "quantile",
                                           "quantile(bins=11)",
                                           "quantile | minmax_sketch",
                                           "quantile(bins=40) | minmax_sketch(groups=2, rows=3, columns=0.5)"};
  const std::vector<std::string> codes{"", "zstd", "zstd(level=3)"};
  // Of each kind with some of each other: all combinations would be thousands.
  std::vector<std::string> sentences;
  for (const char* code : {"rans", "rans(segment)", "rans(adaptive)", "huffman", "huffman(segment)", "elias",
                           "elias(gaps=false)", "lz4", "blosc", "blosc(shuffle, codec=zstd)"}) {
    for (const char* rest : {"f32", "f16", "qsgd", "qsgd(bits=8, bucket=16, norm=l2)", "sign(block=8)", "int8",
                             "terngrad", "quantile(bins=40) | minmax_sketch(groups=2)", "adaptive(error=0.1)",
                             "topk(0.1) | int8", "threshold(0.7) | qsgd(bits=2)", "dct(8) | qsgd",
                             "svd | atomo(s=3) | qsgd(bits=8)", "svd | topk(0.5) | topk(0.5) | bf16"}) {
      sentences.push_back(std::string(rest) + " | " + code);
    }
  }
  for (const std::string& transform : transforms) {
    sentences.push_back(transform);
    for (const char* rest :
         {"f16", "bf16", "topk(0.3)", "randomk(0.4)", "block(2, 0.4)", "block(2, 0.4, shared, dense=0) | f16",
          "randomk(0.4, scope=bucket, dense=0)", "atomo(2)", "qsgd(bits=8)", "atomo(s=3) | qsgd(bits=8)",
          "int8(block=32)", "topk(0.5) | f16 | zstd", "threshold(relative=0.5) | sign(block=8)"}) {
      sentences.push_back(transform + " | " + rest);
    }
  }
  for (const char* joint :
       {"svd | atomo(s=3) | atomo(s=40%)", "svd | topk(0.5) | topk(0.5) | bf16",
        "svd | atomo(s=2) | atomo(p=max) | qsgd(bits=4) | zstd",
        "svd | randomk(0.5) | randomk(0.4, unbiased=true) | bf16",
        "svd(rank=2, exact=1) | atomo(s=2) | atomo(s=60%) | qsgd(bits=8)",
        "dct2(4) | topk(count=3, scope=chunk, dense=0)", "dct2(7) | topk(0.3, scope=chunk) | qsgd",
        "dct(8) | topk(0.2, scope=chunk, dense=7) | int8", "fft(16) | topk(count=2, scope=chunk)"}) {
    sentences.emplace_back(joint);
  }
  for (const std::string& select : further) {
    for (const char* rest : {"", " | qsgd", " | f16", " | int8(block=32)", " | zstd"}) {
      sentences.push_back(select + rest);
    }
  }
  for (const std::string& select : selects) {
    for (const std::string& quantise : quantises) {
      for (const std::string& code : codes) {
        std::string sentence;
        for (const std::string& stage : {select, quantise, code}) {
          if (!sentence.empty() && !stage.empty()) sentence += " | ";
          sentence += stage;
        }
        if (!sentence.empty()) sentences.push_back(sentence);
      }
    }
  }
  // What the ranks agree on first is of whole segments.
  for (const char* quantise : {"terngrad(shared=true)", "terngrad(clip=0, shared=true, pack=trits)"}) {
    for (const char* code : {"", " | zstd"}) sentences.push_back(std::string(quantise) + code);
  }
  return sentences;
}

// Each call, as it is written, in four of the sentences that it stands in, or in all where there are fewer.
std::vector<std::string> sample(const std::vector<std::string>& sentences) {
  constexpr int enough = 4;
  std::map<std::string, int> kept;
  std::vector<std::string> some;
  for (const std::string& text : sentences) {
    const Sentence sentence = parse_sentence("test", text);
    std::vector<std::string> calls;
    for (const Call& call : sentence.calls) calls.emplace_back(text_of(sentence, call));
    if (std::ranges::all_of(calls, [&](const std::string& call) { return kept[call] >= enough; })) continue;
    for (const std::string& call : calls) ++kept[call];
    some.push_back(text);
  }
  return some;
}

}  // namespace

const bool is_sample = SOTTO_TEST_SAMPLE;

std::vector<std::string> listed_sentences() { return is_sample ? sample(list_sentences()) : list_sentences(); }

// Fewer where a sanitizer makes each of them slow.
const std::vector<std::string>& all_sentences() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::size_t generated = 100;
#else
  constexpr std::size_t generated = 400;
#endif
  static const std::vector<std::string> sentences = [] {
    std::vector<std::string> all = listed_sentences();
    std::ranges::move(generated_sentences(generated), std::back_inserter(all));
    return all;
  }();
  return sentences;
}

namespace {

bool has(const std::string& sentence, const char* part) { return sentence.find(part) != std::string::npos; }

bool has_kind(const std::string& sentence, StageKind kind) {
  const auto calls = parse_sentence("test", sentence).calls;
  return std::ranges::any_of(calls, [&](const Call& call) {
    const StageEntry* stage = stage_table().find(call.name);
    return stage != nullptr && stage->kind == kind;
  });
}

}  // namespace

bool is_stochastic(const std::string& sentence) {
  const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 1)};
  const auto body = [&](const Key& key) {
    const auto message = encode(*make_codec(read_stages(sentence)), input, key);
    return std::vector<std::byte>(message.begin() + sizeof(Header), message.end());
  };
  const auto first = body({});
  return std::ranges::any_of(std::array{Key{.step = 1}, Key{.step = 2}, Key{.rank = 3}, Key{.seed = 4}},
                             [&](const Key& key) { return body(key) != first; });
}

bool transforms(const std::string& sentence) { return has_kind(sentence, StageKind::transform); }

bool selects(const std::string& sentence) { return has_kind(sentence, StageKind::select); }

bool is_warm(const std::string& sentence) {
  // Counts the floats of a state.
  class Count final : public StateVisitor {
   public:
    void visit(std::string_view, std::vector<float>& values) override { floats += values.size(); }
    void visit(std::string_view, std::vector<std::uint8_t>&) override {}
    void visit(std::string_view, std::uint64_t&) override {}
    std::size_t floats = 0;
  } count;
  const auto codec = make_codec(read_stages(sentence));
  encode(*codec, {"gaussian", mixed_layout(), gaussian(mixed_layout(), 1)});
  codec->visit_state(count);
  return count.floats > 0;
}

bool fits(const std::string& sentence, const Input& input) {
  return input.name != "largest" || !(transforms(sentence) || has(sentence, "atomo") || has(sentence, "unbiased"));
}

Layout mixed_layout() {
  Layout layout;
  layout.append("conv.weight", {4, 3, 3, 3});
  layout.append("conv.bias", {7});
  layout.append("nothing", {0, 3});
  layout.append("a.weight", {5, 9});
  layout.append("b.weight", {5, 9});
  layout.append("scale", {});
  layout.append("last", {31});
  return layout;
}

Layout borrowed_layout() {
  return {{{"first", 0, {3}}, {"second", 3, {4, 11}}, {"third", 50, {1}}, {"fourth", 51, {2, 3, 5}}}, 83};
}

std::vector<float> gaussian(const Layout& layout, std::uint64_t seed, float spread) {
  std::vector<float> values(layout.size());
  Philox random(seed, Purpose::test);
  for (float& value : values) value = spread * static_cast<float>(random.normal());
  layout.clear_padding(values);
  return values;
}

namespace {

std::vector<Input> make_inputs() {
  std::vector<Input> inputs;
  inputs.push_back({"empty", {}, {}});
  inputs.push_back({"one element", {{{"w", 0, {1}}}, 1}, {-0.3F}});
  inputs.push_back({"one zero", {{{"w", 0, {}}}, 1}, {0.0F}});
  for (const Layout& layout : {mixed_layout(), borrowed_layout()}) {
    const std::vector<float> normal = gaussian(layout, 1);
    const auto add = [&](std::string name, auto value) {
      std::vector<float> values(layout.size());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(i);
      layout.clear_padding(values);
      inputs.push_back({std::move(name), layout, std::move(values)});
    };
    add("gaussian", [&](std::size_t i) { return normal[i]; });
    add("all zero", [](std::size_t) { return 0.0F; });
    add("one spike", [](std::size_t i) { return i == 52 ? -7.5F : 0.0F; });
    add("zeros of both signs", [](std::size_t i) { return i % 3 == 0 ? -0.0F : 0.0F; });
    add("denormals", [&](std::size_t i) { return normal[i] * 1e-40F; });
    add("smallest", [](std::size_t i) { return i % 2 == 0 ? 1e-45F : -3e-45F; });
    add("huge", [&](std::size_t i) { return normal[i] * 1e30F; });
    add("largest", [](std::size_t i) { return (i % 2 == 0 ? 1.0F : -1.0F) * std::numeric_limits<float>::max(); });
    add("equal magnitudes", [](std::size_t i) { return i % 2 == 0 ? 0.25F : -0.25F; });
    add("heavy tails", [&](std::size_t i) { return normal[i] * normal[i] * normal[i] * 1000.0F; });
  }
  return inputs;
}

}  // namespace

const std::vector<Input>& all_inputs() {
  static const auto inputs = make_inputs();
  return inputs;
}

std::vector<Message> encode_parts(Codec& codec, const Input& input, std::span<const Range> parts, const Key& key,
                                  std::uint16_t bucket) {
  std::vector<float> values = input.values;
  std::vector<float> agreed(codec.agreed_count(input.layout));
  std::vector<Message> messages(parts.size());
  codec.propose({values, &input.layout, bucket}, agreed);
  codec.encode({values, &input.layout, bucket}, key, agreed, parts, messages);
  return messages;
}

std::vector<std::byte> encode(Codec& codec, const Input& input, const Key& key, std::uint16_t bucket) {
  const auto messages = encode_parts(codec, input, std::array{Range{0, input.layout.size()}}, key, bucket);
  return {messages[0].bytes().begin(), messages[0].bytes().end()};
}

std::vector<std::byte> encode_part(Codec& codec, const Input& input, Range part, const Key& key) {
  const auto messages = encode_parts(codec, input, std::array{part}, key);
  return {messages[0].bytes().begin(), messages[0].bytes().end()};
}

std::vector<std::byte> sealed(const Header& header, std::span<const std::byte> body) {
  Message message;
  std::ranges::copy(body, message.begin(body.size()).begin());
  message.finish(header, body.size());
  return {message.bytes().begin(), message.bytes().end()};
}

std::vector<float> decode(const Codec& codec, const Input& input, std::span<const std::byte> message, float scale) {
  std::vector<float> out(input.layout.size());
  add_part(codec, input.layout, {0, input.layout.size()}, message, scale, out);
  return out;
}

void add_part(const Codec& codec, const Layout& layout, Range part, std::span<const std::byte> message, float scale,
              std::vector<float>& out) {
  Bucket bucket{out, &layout, 0};
  test::opened(codec, MessageView::parse(message), layout, part)->add_to(bucket, scale);
}

double square_norm(std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += static_cast<double>(x) * x;
  return sum;
}

double square_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return sum;
}

}  // namespace sotto::testing
