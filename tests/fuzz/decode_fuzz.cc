// Fuzzes every decoder with any bytes that a peer may send; decode_input.h describes an input. A message must be
// refused with a WireError, or decode to finite numbers, the same ones by every instance. No more may be allocated than
// the layout requires.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "sotto/kernels/checksum.h"
#include "tests/codec/generated.h"
#include "tests/fuzz/subjects.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace sotto::fuzzing {
namespace {

// The most bytes that tables and other working memory of a new instance take, whatever the layout is.
constexpr std::size_t of_a_new_one = 256 * 1024;
constexpr std::size_t crc_at = sizeof(Header) - sizeof(Header::crc);

Subjects& subjects() {
  static Subjects all;
  return all;
}

const std::vector<std::string>& expressions() {
  static const std::vector<std::string> all = testing::generated_codecs(500);
  return all;
}

void change(std::span<std::byte> bytes, std::span<const std::byte> by) {
  for (std::size_t i = 0; i < std::min(bytes.size(), by.size()); ++i) bytes[i] ^= by[i];
}

std::vector<std::byte> sealed(Header header, std::span<const std::byte> body) {
  Message message;
  std::ranges::copy(body, message.begin(body.size()).begin());
  message.finish(header, body.size());
  return {message.bytes().begin(), message.bytes().end()};
}

std::vector<std::byte> message_of(const DecodeInput& input, const Message& valid) {
  using Form = DecodeInput::Form;
  Header header = valid.view().header();
  switch (input.form) {
    case Form::body: header.flags = input.flags; return sealed(header, input.bytes);
    case Form::changed_body: {
      header.flags ^= input.flags;
      std::vector<std::byte> body(valid.view().body().begin(), valid.view().body().end());
      change(body, input.bytes);
      return sealed(header, body);
    }
    case Form::changed: {
      std::vector<std::byte> message(valid.bytes().begin(), valid.bytes().end());
      change(message, input.bytes);
      std::memcpy(&header, message.data(), sizeof(header));
      const auto body = std::span(message).subspan(sizeof(Header));
      const auto announced = body.first(std::min<std::size_t>(header.body_bytes, body.size()));
      const std::uint32_t crc = kernels::crc32(kernels::crc32(0, std::span(message).first(crc_at)), announced);
      std::memcpy(message.data() + crc_at, &crc, sizeof(crc));
      return message;
    }
    case Form::raw: break;
  }
  return input.bytes;
}

// The values that a message decodes to, or none when it is refused.
class Decoded {
 public:
  Decoded(const DecodeInput& input, MessageReader& opened, std::span<const std::byte> message, std::size_t most)
      : scene_(subjects().scene(input)), out_(scene_.layout.size()) {
    Bucket bucket{out_, &scene_.layout, 0};
    const std::size_t before = allocated();
    try {
      opened.open(MessageView::parse(message), scene_.layout, scene_.part);
      opened.add_to(bucket, 1);
      accepted_ = true;
    } catch (const WireError&) {
    }
    const std::size_t taken = allocated() - before;
    if (taken > most) fail(input, fmt::format("{} bytes are allocated, where {} are the most", taken, most));
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (!std::isfinite(out_[i])) fail(input, "values that are not finite");
      const bool touched = accepted_ && i >= scene_.part.begin && i < scene_.part.end;
      if (!touched && out_[i] != 0) fail(input, "values that no message was for");
    }
    std::vector<float> cleared = out_;
    scene_.layout.clear_padding(cleared);
    if (cleared != out_) fail(input, "padding that is not zero");
  }

  bool accepted() const { return accepted_; }
  bool operator==(const Decoded& other) const {
    return accepted_ == other.accepted_ && std::memcmp(out_.data(), other.out_.data(), 4 * out_.size()) == 0;
  }

 private:
  const Scene& scene_;
  std::vector<float> out_;
  bool accepted_ = false;
};

void decode(const DecodeInput& input, Subject& subject, std::span<const std::byte> message) {
  // The first decoded message grows the buffers of an instance to a size that no message of this layout exceeds.
  const Decoded decoded(input, *subject.opened, message, subject.most_allocated);
  if (!input.thorough) return;
  const Scene& scene = subjects().scene(input);
  const auto fresh = subjects().codec(input);
  const auto opened = fresh->make_opened();
  const std::size_t most = subject.codec->max_bytes(scene.layout, scene.part) + 4 * scene.layout.size();
  const Decoded again(input, *opened, message, subject.most_allocated + of_a_new_one + 64 * most);
  if (!(again == decoded)) fail(input, "a new instance decodes it to something else");
  std::vector<float> marks(scene.layout.size(), 1);
  Bucket bucket{marks, &scene.layout, 0};
  if (decoded.accepted()) opened->clear_chosen(bucket);
  if (std::ranges::any_of(marks, [](float x) { return x != 0 && x != 1; })) fail(input, "marks of other values");
}

// Mutates an input. Codecs stay valid, and headers right; LLVMFuzzerMutate() changes the rest.
std::vector<std::uint8_t> mutated(std::span<const std::uint8_t> data, std::size_t most, unsigned seed) {
  Philox random(seed, Purpose::test);
  auto input = DecodeInput::parse(data);
  const auto count = static_cast<std::uint32_t>(expressions().size());
  if (!input) {
    input.emplace();
    input->codec = expressions()[random.below(count)];
  }
  // Slow checks are rare.
  input->thorough = random.below(64) == 0;
  input->threads = random.below(256) == 0;
  switch (random.below(128)) {
    case 0: input->codec = expressions()[random.below(count)]; break;
    case 1: input->scene = static_cast<std::uint8_t>(random.below(scenes)); break;
    case 2: input->data = static_cast<std::uint8_t>(random.below(kinds_of_data)); break;
    case 3:
    case 4:
    case 5: input->flags ^= static_cast<std::uint8_t>(1U << random.below(8)); break;
    case 6: input->form = static_cast<DecodeInput::Form>(random.below(4)); break;
    case 7:
    case 8:
    case 9: {  // replaces the changes by the changed body, so that bytes can be inserted and removed
      Subject& subject = subjects().of(*input);
      if (input->form != DecodeInput::Form::changed_body || !subject.codec) break;
      const MessageView valid = subjects().valid(subject, *input).view();
      std::vector<std::byte> body(valid.body().begin(), valid.body().end());
      if (body.size() > most / 2) break;
      change(body, input->bytes);
      input->form = DecodeInput::Form::body;
      input->flags ^= valid.header().flags;
      input->bytes = std::move(body);
      break;
    }
    default: break;
  }
  const std::size_t head = input->codec.size() + 3;
  if (head < most) {
    const std::size_t room = most - head;
    std::vector<std::uint8_t> bytes(room);
    const std::size_t size = std::min(input->bytes.size(), room);
    if (size > 0) std::memcpy(bytes.data(), input->bytes.data(), size);
    bytes.resize(LLVMFuzzerMutate(bytes.data(), size, room));
    const auto some = std::as_bytes(std::span(bytes));
    input->bytes.assign(some.begin(), some.end());
  }
  auto packed = input->packed();
  packed.resize(std::min(packed.size(), most));
  return packed;
}

}  // namespace
}  // namespace sotto::fuzzing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  const auto result = sotto::fuzzing::mutated({data, size}, most, seed);
  std::ranges::copy(result, data);
  return result.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sotto::fuzzing;
  auto input = DecodeInput::parse({data, size});
  if (!input) return 0;
  Subject& subject = subjects().of(*input);
  if (!subject.codec) return 0;
  decode(*input, subject, message_of(*input, subjects().valid(subject, *input)));
  return 0;
}
