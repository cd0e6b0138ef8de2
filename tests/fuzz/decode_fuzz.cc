// Every decoder, with whatever bytes a peer may send. An input is
//   transform, select, quantise, code: a byte each, by number in the table, 0 for none; flags of the header; how;
//   the body: as it is, or (odd `how`) over a valid one by exclusive or, so that an empty input is a valid message.
// A message is refused as a WireError, or decodes to finite numbers; nothing is allocated that the layout did not say.
#include <sanitizer/allocator_interface.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"

namespace sotto {
namespace {

constexpr std::size_t kinds = 4;
constexpr std::size_t head = kinds + 2;
// A message of this layout is some kilobytes; tables of codes and text of errors come on top.
constexpr std::size_t most_allocated = 1U << 20U;
std::size_t allocated = 0;  // bytes, ever; nothing runs beside the fuzzer's thread but its watchdog

Layout small_layout() {
  Layout layout;
  layout.append("conv.weight", {4, 3, 3, 3});
  layout.append("bias", {7});
  layout.append("nothing", {0, 3});
  layout.append("weight", {5, 9});
  layout.append("scale", {});
  return layout;
}

std::vector<float> gaussian(const Layout& layout) {
  std::vector<float> values(layout.size());
  Philox random(1, Purpose::test);
  for (float& value : values) value = static_cast<float>(random.normal());
  layout.clear_padding(values);
  return values;
}

// A sentence of stages with a decoder that works, and a valid message.
struct Subject {
  std::unique_ptr<Codec> codec;  // null: there is no such sentence
  Message message;
};

class Subjects {
 public:
  Subjects() : layout_(small_layout()), values_(gaussian(layout_)), out_(layout_.size()) {
    for (const StageEntry& stage : stage_table()) stages_[static_cast<std::size_t>(stage.kind)].push_back(&stage);
  }

  void run(std::span<const std::uint8_t> input) {
    if (input.size() < head) return;
    std::array<std::size_t, kinds> choice{};
    for (std::size_t kind = 0; kind < kinds; ++kind) choice[kind] = input[kind] % (stages_[kind].size() + 1);
    Subject& subject = this->subject(choice);
    if (!subject.codec) return;
    const auto valid = subject.message.view();
    const auto rest = std::as_bytes(input.subspan(head));
    const bool over = input[kinds + 1] % 2 == 1;
    std::vector<std::byte> body(rest.begin(), rest.end());
    if (over) {
      body.assign(valid.body().begin(), valid.body().end());
      for (std::size_t i = 0; i < std::min(body.size(), rest.size()); ++i) body[i] ^= rest[i];
    }
    Header header = valid.header();
    header.flags = static_cast<std::uint8_t>(over ? header.flags ^ input[kinds] : input[kinds]);
    Message message;
    std::ranges::copy(body, message.begin(body.size()).begin());
    message.finish(header, body.size());
    decode(*subject.codec, message);
  }

 private:
  Subject& subject(const std::array<std::size_t, kinds>& choice) {
    const auto [at, is_new] = subjects_.try_emplace(choice);
    Subject& subject = at->second;
    if (!is_new) return subject;
    std::string sentence;
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      if (choice[kind] == 0) continue;
      const StageEntry& stage = *stages_[kind][choice[kind] - 1];
      sentence += sentence.empty() ? "" : " | ";
      sentence += stage.example.empty() ? std::string(stage.name) + "()" : std::string(stage.example);
    }
    if (sentence.empty()) return subject;
    try {
      subject.codec = make_codec("fuzz", sentence);
      const Bucket bucket{values_, &layout_, 0};
      const std::array parts{whole()};
      std::vector<float> agreed(subject.codec->agreed_count(layout_));
      if (!agreed.empty()) subject.codec->propose(bucket, agreed);
      subject.codec->encode(bucket, {}, agreed, parts, {&subject.message, 1});
    } catch (const ConfigError&) {  // stages that do not go together
      subject.codec.reset();
      return subject;
    }
    if (!decode(*subject.codec, subject.message)) fail("a message of its own is refused");
    return subject;
  }

  Range whole() const { return {0, layout_.size()}; }

  bool decode(const Codec& codec, const Message& message) {
    std::ranges::fill(out_, 0.0F);
    Bucket bucket{out_, &layout_, 0};
    const std::size_t before = allocated;
    bool accepted = true;
    try {
      codec.add_decoded(MessageView::parse(message.bytes()), whole(), 1, bucket);
    } catch (const WireError&) {
      accepted = false;
    }
    if (allocated - before > most_allocated) fail("too much is allocated");
    for (const float value : out_) {
      if (!std::isfinite(value)) fail("values that are not finite");
      if (!accepted && value != 0) fail("a message that is refused changes the target");
    }
    return accepted;
  }

  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "decode_fuzz: %s\n", what);
    std::abort();
  }

  Layout layout_;
  std::vector<float> values_, out_;
  std::array<std::vector<const StageEntry*>, kinds> stages_;
  std::map<std::array<std::size_t, kinds>, Subject> subjects_;
};

}  // namespace
}  // namespace sotto

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  __sanitizer_install_malloc_and_free_hooks([](const volatile void*, std::size_t size) { sotto::allocated += size; },
                                            [](const volatile void*) {});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static sotto::Subjects subjects;
  subjects.run({data, size});
  return 0;
}
