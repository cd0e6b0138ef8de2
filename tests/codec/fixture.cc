#include "tests/codec/fixture.h"

#include <algorithm>
#include <array>
#include <limits>

#include "sotto/codec/stages.h"
#include "sotto/core/random.h"
#include "sotto/core/table.h"
#include "tests/support/opened.h"

namespace sotto::testing {

namespace {

bool has(const std::string& expression, const char* part) { return expression.find(part) != std::string::npos; }

bool has_kind(const std::string& expression, StageKind kind) {
  const auto calls = parse_expression("test", expression).calls;
  return std::ranges::any_of(calls, [&](const Call& call) {
    const StageEntry* stage = stage_table().find(call.name);
    return stage != nullptr && stage->kind == kind;
  });
}

}  // namespace

bool is_stochastic(const std::string& expression) {
  const Input input{"gaussian", mixed_layout(), gaussian(mixed_layout(), 1)};
  const auto body = [&](const Key& key) {
    const auto message = encode(*make_codec(read_stages(expression)), input, key);
    return std::vector<std::byte>(message.begin() + sizeof(Header), message.end());
  };
  const auto first = body({});
  return std::ranges::any_of(std::array{Key{.step = 1}, Key{.step = 2}, Key{.rank = 3}, Key{.seed = 4}},
                             [&](const Key& key) { return body(key) != first; });
}

bool transforms(const std::string& expression) { return has_kind(expression, StageKind::transform); }

bool selects(const std::string& expression) { return has_kind(expression, StageKind::select); }

bool is_warm(const std::string& expression) {
  // Counts the floats of a state.
  class Count final : public StateVisitor {
   public:
    void visit(std::string_view, std::vector<float>& values) override { floats += values.size(); }
    void visit(std::string_view, std::vector<std::uint8_t>&) override {}
    void visit(std::string_view, std::uint64_t&) override {}
    std::size_t floats = 0;
  } count;
  const auto codec = make_codec(read_stages(expression));
  encode(*codec, {"gaussian", mixed_layout(), gaussian(mixed_layout(), 1)});
  codec->visit_state(count);
  return count.floats > 0;
}

bool fits(const std::string& expression, const Input& input) {
  return input.name != "largest" ||
         !(transforms(expression) || has(expression, "atomo") || has(expression, "unbiased"));
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
