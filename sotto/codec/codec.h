#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/codec/contract.h"
#include "sotto/codec/message.h"
#include "sotto/core/dtype.h"
#include "sotto/core/error.h"
#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/core/table.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

struct StageEntry;
using StageSpec = Spec<StageEntry>;
using StageSpecs = std::vector<StageSpec>;

// A run of whole segments of a flat vector: our own, or borrowed from another framework (then without padding). Codecs
// see only floats: the borrower of 16-bit floats converts them to floats in scratch memory. A bucket is a view: copying
// it copies no floats.
struct Bucket {
  std::span<float> values;
  const Layout* layout = nullptr;  // offsets relative to `values`
  std::uint16_t index = 0;
};

// Everything that the random numbers of an encoding may depend on. The message header holds the same fields except the
// seed.
struct Key {
  std::uint64_t seed = 0;
  std::uint16_t rank = 0;
  std::uint16_t generation = 0;
  std::uint32_t step = 0;
  bool alone = false;  // the vector belongs to no rank or step, so errors name neither; changes no random number
};

// For errors: " at step 3 on rank 1".
std::string where(const Key& key);

// The part of a vector that the other ranks have after decoding.
class Sent {
 public:
  virtual ~Sent() = default;
  // out += scale * (the vector as it was sent).
  virtual void add_to(Bucket& out, float scale) = 0;
  // Sets `out` to 0 at the elements that a selection chose, whatever values they were sent with. Elements that are sent
  // in every step do not count as chosen. These are the segments that a selection sends whole, and all elements if the
  // codec has no selection. Elements that the row of a transform represents do not count either.
  virtual void clear_chosen(Bucket& /*out*/) {}
};

// Opens one message after another. open() checks the whole content of a message; until the next open() the reader then
// stands for this message. Before the first message and after a bad one no message is open, and functions that need one
// throw std::logic_error. Abstract for the same reason as Codec: its users need no header of a stage.
class MessageReader : public Sent {
 public:
  // WireError if this codec cannot have made the message for this layout and part. Any rank can open any rank's
  // message. The bytes of the message must stay valid until the next one is opened.
  virtual void open(const MessageView& message, const Layout& layout, Range part) = 0;
  // Adds to bytes[s] the number of bytes of the open message that belong to segment s: side information, symbols and
  // indices. Returns the number of all other bytes: header, seed, lengths, tables of a code, and the side information
  // of `clusters(scope=bucket)`, whose symbols are shared out by number of values. With a code of symbols (rans,
  // huffman, elias), a segment's symbols count the coded bytes that they add. Other codes see all segments together. A
  // segment then counts its bytes before the code, and the bytes that the code saves are subtracted from the result,
  // which may become negative. REQUIRES an open message that encode() of such a codec made.
  virtual std::int64_t add_shares(std::span<std::size_t> bytes) = 0;
};

// What never changes about a codec.
struct CodecTraits {
  StageSpecs stages{};       // make_codec(stages) makes an equal codec
  std::string text{};        // the stages as text, with every option named; its hash is in every message
  bool lists_atoms = false;  // every message lists its atoms, and each atom is the same one on every rank
  // Of a linear codec (contract().linear): the type of the numbers of its linear form.
  std::optional<DType> linear_type{};
  // Whether from_linear() of a sum equals the sum of the single from_linear() results. If not, only the mean of all
  // ranks is known, not the part of one rank's vector that was sent.
  bool additive = true;
  bool merges = false;  // add_sum() adds messages up before it decodes them
};

// A finite value is too large for the type of a codec's linear form. Messages of the codec may still hold the value.
class DoesNotFit : public NumericError {
 public:
  using NumericError::NumericError;
};

// The lossy or lossless code of a bucket. Abstract, so that its users need no header of a stage. An object serves one
// caller at a time and reuses its buffers, so steps after the first allocate nothing. All randomness comes from the
// Key.
class Codec {
 public:
  explicit Codec(CodecTraits traits = {}) : traits_(std::move(traits)) {}
  virtual ~Codec() = default;

  const CodecTraits& traits() const { return traits_; }
  virtual Contract contract(const Layout& layout) const = 0;
  // An upper bound on the size of a whole message, header included, for a part of a bucket of this layout.
  virtual std::size_t max_bytes(const Layout& layout, Range part) const = 0;

  // How many numbers all ranks must agree on (their maximum) before any of them encodes, for example a shared scale.
  virtual std::size_t agreed_count(const Layout&) const { return 0; }
  virtual void propose(const Bucket&, std::span<float> /*numbers: overwritten*/) {}

  // Makes one message per part. Parts are cut at the contract's grain; a single part is the whole bucket. `agreed`
  // holds agreed_count() numbers. NumericError, which names the segment, if a value is not finite.
  virtual void encode(const Bucket& bucket, const Key& key, std::span<const float> agreed, std::span<const Range> parts,
                      std::span<Message> out) = 0;

  // Makes a reader that can open one message after another. It shares the stages of this codec, so both must serve the
  // same caller.
  virtual std::unique_ptr<MessageReader> make_opened() const = 0;
  // out[part] += the mean of these messages, where each atom is averaged only over the messages that hold it. Segments
  // that a selection sends whole (dense segments) are in all messages. REQUIRES traits().lists_atoms, and open
  // messages of this codec.
  virtual void add_mean_of_holders(std::span<const std::unique_ptr<MessageReader>> /*messages*/, Range /*part*/,
                                   Bucket& /*out*/) {}

  // out += scale * (the sum of these messages), as if add_to() were called for each, in their order. If
  // traits().merges, messages may be added up before they are decoded, which is quicker and may change their values.
  // Until the next add_sum(), add_to() of a message then adds its part of that sum. REQUIRES open messages of this
  // codec, of whole buckets.
  virtual void add_sum(std::span<const std::unique_ptr<MessageReader>> messages, float scale, Bucket& out) {
    for (const auto& message : messages) message->add_to(out, scale);
  }

  // Linear codecs also have a form of linear_count() numbers of traits().linear_type that can be summed over
  // ranks element by element. For the same seed, step and bucket its numbers stand for the same elements on every rank.
  // from_linear() computes the bucket from a sum of such forms.
  virtual std::size_t linear_count(const Layout&) { return 0; }
  virtual void to_linear(const Bucket&, float /*scale*/, const Key&, std::span<std::byte> /*out*/) {}
  virtual void from_linear(std::span<const std::byte> /*in*/, float /*scale*/, const Key&,
                           Bucket& /*out: overwritten*/) {}
  // As Sent::clear_chosen(), for the linear form of this step.
  virtual void clear_chosen(const Key&, Bucket& /*out*/) {}

  // Warm starts and tables, for checkpoints.
  virtual void visit_state(StateVisitor&) {}

 private:
  CodecTraits traits_;
};

// Makes the codec of these stages (see read_stages() in stages.h); without a quantiser, floats are sent unchanged.
// ConfigError if the stages cannot follow each other. The threads of `pool` share the work; codecs that are not used at
// the same time may share a pool. Without a pool the calling thread does all the work. The threads do not change the
// results.
std::unique_ptr<Codec> make_codec(const StageSpecs& stages, std::shared_ptr<ThreadPool> pool = nullptr);

}  // namespace sotto
