#include "tests/fuzz/subjects.h"

#include <fmt/format.h>
#include <sanitizer/allocator_interface.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "sotto/core/table.h"

namespace sotto::fuzzing {
namespace {

constexpr std::size_t most_subjects = 2500;  // kept in memory
constexpr std::size_t of_an_error = 8192;
constexpr std::size_t of_a_library = 192 * 1024;
constexpr std::size_t task = 8;  // elements; small, so that two threads have work

std::atomic<std::size_t> allocated_bytes{0};

Layout tiny() {
  Layout layout;
  layout.append("matrix", {3, 7});
  layout.append("nothing", {0, 3});
  layout.append("bias", {5});
  return layout;
}

Layout small() {
  Layout layout;
  layout.append("conv.weight", {4, 3, 3, 3});
  layout.append("bias", {7});
  layout.append("weight", {5, 9});
  layout.append("scale", {});
  return layout;
}

Layout borrowed() {
  return {{{"first", 0, {3}}, {"second", 3, {4, 11}}, {"third", 50, {1}}, {"fourth", 51, {32}}}, 83};
}

Layout large() {  // for codes that have another form from some thousand bytes on
  Layout layout;
  layout.append("matrix", {60, 200});
  layout.append("bias", {50});
  return layout;
}

std::vector<float> values_of(const Layout& layout, std::size_t data) {
  std::vector<float> values(layout.size());
  Philox random(1, Purpose::test);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto normal = static_cast<float>(random.normal());
    switch (data) {
      case 0: values[i] = normal; break;
      case 1: values[i] = i % 9 == 0 ? normal : 0.0F; break;
      case 2: values[i] = normal * normal * normal * 1e10F; break;
      default: values[i] = i % 2 == 0 ? 0.25F : -0.25F;
    }
  }
  layout.clear_padding(values);
  return values;
}

bool has_code(const std::string& expression) {
  const Expression parsed = parse_expression("fuzz", expression);
  const StageEntry* last = stage_table().find(parsed.calls.back().name);
  return last != nullptr && last->kind == StageKind::code;
}

// A valid message by another instance than the one that decodes, since instances share no working memory.
std::unique_ptr<Message> message_of(const std::string& expression, const Scene& scene, std::size_t data) {
  const auto codec = make_codec(read_stages(expression));
  std::vector<float> values = values_of(scene.layout, data);
  const Bucket bucket{values, &scene.layout, 0};
  std::vector<float> agreed(codec->agreed_count(scene.layout));
  if (!agreed.empty()) codec->propose(bucket, agreed);
  auto message = std::make_unique<Message>();
  codec->encode(bucket, {}, agreed, {&scene.part, 1}, {message.get(), 1});
  return message;
}

}  // namespace

std::size_t allocated() {
  static const int hooks = __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, std::size_t size) { allocated_bytes.fetch_add(size, std::memory_order_relaxed); },
      [](const volatile void*) {});
  if (hooks == 0) std::abort();
  return allocated_bytes.load(std::memory_order_relaxed);
}

void fail(const DecodeInput& input, const std::string& what) {
  std::fprintf(stderr, "decode_fuzz: %s: %s\n", input.codec.c_str(), what.c_str());
  std::abort();
}

Subjects::Subjects()
    : scenes_{Scene{tiny(), {0, tiny().size()}}, Scene{small(), {0, small().size()}}, Scene{borrowed(), {3, 83}},
              Scene{large(), {0, large().size()}}},
      one_(std::make_shared<ThreadPool>(1)),
      two_(std::make_shared<ThreadPool>(2, task)) {}

std::unique_ptr<Codec> Subjects::codec(const DecodeInput& input) const {
  return make_codec(read_stages(input.codec), input.threads ? two_ : one_);
}

const Scene& Subjects::scene(const DecodeInput& input) const { return scenes_[input.scene]; }

Subject& Subjects::of(const DecodeInput& input) {
  if (subjects_.size() > most_subjects) subjects_.clear();
  const auto [at, is_new] = subjects_.try_emplace(Place{input.codec, input.scene, input.threads});
  Subject& subject = at->second;
  if (!is_new) return subject;
  try {
    subject.codec = codec(input);
    subject.codec->max_bytes(scene(input).layout, scene(input).part);
    if (input.scene == large_scene && !has_code(input.codec)) subject.codec.reset();  // for codes alone
    if (!subject.codec) return subject;
  } catch (const ConfigError&) {  // not a codec, or one that needs a larger vector
    subject.codec.reset();
    return subject;
  }
  const Message& message = valid(subject, input);
  std::vector<float> out(scene(input).layout.size());
  Bucket bucket{out, &scene(input).layout, 0};
  try {
    subject.opened = subject.codec->make_opened();
    subject.opened->open(message.view(), scene(input).layout, scene(input).part);
    subject.opened->add_to(bucket, 1);
  } catch (const WireError& error) {
    fail(input, fmt::format("the codec refuses its own message: {}", error.what()));
  }
  subject.most_allocated = of_an_error;
  if (has_code(input.codec)) {
    subject.most_allocated += of_a_library + 4 * subject.codec->max_bytes(scene(input).layout, scene(input).part);
  }
  return subject;
}

const Message& Subjects::valid(Subject& subject, const DecodeInput& input) {
  auto& message = subject.messages[input.data];
  if (!message) message = message_of(input.codec, scene(input), input.data);
  return *message;
}

}  // namespace sotto::fuzzing
