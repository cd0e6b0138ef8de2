#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/codec/message.h"
#include "sotto/core/dtype.h"
#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/core/table.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

struct StageEntry;
using StageSpec = Spec<StageEntry>;
using StageSpecs = std::vector<StageSpec>;

// A run of whole segments of a flat vector: our own, or borrowed from another framework (then unpadded). A borrowed
// bucket of 16-bit floats is widened into scratch by whoever borrows it; codecs see floats.
struct Bucket {
  std::span<float> values;
  const Layout* layout = nullptr;  // offsets relative to `values`
  std::uint16_t index = 0;
};

// Everything that the random numbers of an encoding may depend on, and what its header says.
struct Key {
  std::uint64_t seed = 0;
  std::uint16_t rank = 0;
  std::uint16_t generation = 0;
  std::uint32_t step = 0;
};

// What a codec promises about decode(encode(x)) =: C(x), for the given layout.
struct Contract {
  enum class Kind : std::uint8_t {
    exact,        // C(x) = x, bit for bit
    rounding,     // |C(x)-x| <= 1e-5 |x|: exact but for the rounding of floats
    unbiased,     // E C(x) = x and E |C(x)-x|^2 <= omega |x|^2
    contraction,  // E |C(x)-x|^2 <= (1-delta) |x|^2
    none,         // neither
  };
  enum class Input : std::uint8_t { gradient, delta, model };  // the most delicate input that it may be used on
  enum class Grain : std::uint8_t { element, block, row, segment };
  // Whose random numbers a message depends on: none, numbers that all ranks draw alike, or numbers of this rank's own.
  // The signs that `signs` draws for zeros do not count.
  enum class Chance : std::uint8_t { none, shared, own };

  Kind kind = Kind::exact;
  double omega = 0;  // of an unbiased codec or of none of these, E |C(x)-x|^2 / |x|^2; infinite when there is no bound
  double delta = 1;  // of a contraction, in (0, 1]
  bool linear = false;
  bool signs = false;  // C(x) is the sign of x, -1 or 1, and nothing else
  Input input = Input::gradient;
  Grain grain = Grain::element;  // where a bucket may be cut into parts, each of which then keeps the contract
  std::size_t block = 1;         // elements a block, when grain is block
  Chance chance = Chance::none;
};

// What others have of a vector, once they decoded it.
class Sent {
 public:
  virtual ~Sent() = default;
  // out += scale * what was sent.
  virtual void add_to(Bucket& out, float scale) = 0;
  // out = 0 at the elements that a selection chose to be sent, whatever their values became. Elements that are sent in
  // every step were not chosen: all of them where nothing selects, segments that a selection sends whole. Nor were
  // elements that a row of a transform stands for.
  virtual void clear_chosen(Bucket& /*out*/) {}
};

// A message that was opened: all that it says was checked, once. A bad message leaves nothing open.
class Opened : public Sent {
 public:
  // WireError if the message is not one that the codec can have made for this layout and part. Any rank opens any
  // rank's message. The bytes of the message must stay until the next one is opened.
  virtual void open(const MessageView& message, const Layout& layout, Range part) = 0;
};

// The lossy or lossless code of a bucket. One object serves one caller at a time: it reuses buffers, so a step after
// the first allocates nothing. All randomness comes from the Key.
class Codec {
 public:
  virtual ~Codec() = default;

  // What it is made of: another one like it is make_codec(stages()).
  virtual const StageSpecs& stages() const = 0;
  // The same as text, every option named. It is hashed into every message.
  virtual const std::string& sentence() const = 0;
  virtual Contract contract(const Layout& layout) const = 0;
  // An upper bound on the size of a whole message, header included, for a part of a bucket of this layout.
  virtual std::size_t max_bytes(const Layout& layout, Range part) const = 0;

  // Numbers that all ranks must agree on (their maximum) before any of them encodes: a shared scale, say.
  virtual std::size_t agreed_count(const Layout&) const { return 0; }
  virtual void propose(const Bucket&, std::span<float> /*numbers: overwritten*/) {}

  // One message per part. Parts are cut at the contract's grain; one part is the whole bucket. `agreed` holds
  // agreed_count() numbers. A value that is not finite is a NumericError that names its segment.
  virtual void encode(const Bucket& bucket, const Key& key, std::span<const float> agreed, std::span<const Range> parts,
                      std::span<Message> out) = 0;

  // Room for one message, to be reused from message to message. It shares the stages of this codec: both serve the same
  // caller.
  virtual std::unique_ptr<Opened> make_opened() const = 0;
  // Whether every message says which atoms it holds, and an atom is the same one on every rank.
  virtual bool lists_atoms() const { return false; }
  // out[part] += the mean of these messages, in which that of an atom is over the messages that hold it. What a
  // selection does not choose (dense segments) is in all of them. REQUIRES lists_atoms(), and messages of this codec
  // that are open.
  virtual void add_mean_of_holders(std::span<const std::unique_ptr<Opened>> /*messages*/, Range /*part*/,
                                   Bucket& /*out*/) {}

  // Linear codecs (contract().linear) also have a form that can be summed over ranks element by element, in this type:
  // linear_count() numbers, the same ones on every rank for the same seed, step and bucket. from_linear() makes the
  // bucket of a sum of such forms.
  virtual std::optional<DType> linear_type() const { return std::nullopt; }
  virtual std::size_t linear_count(const Layout&) { return 0; }
  virtual void to_linear(const Bucket&, float /*scale*/, const Key&, std::span<std::byte> /*out*/) {}
  virtual void from_linear(std::span<const std::byte> /*in*/, float /*scale*/, const Key&,
                           Bucket& /*out: overwritten*/) {}
  // Whether what from_linear() makes of a sum is the sum of what it makes of each form. Otherwise what was sent of one
  // rank's vector is known by the mean alone.
  virtual bool additive() const { return true; }
  // Sent::clear_chosen(), of the linear form of this step.
  virtual void clear_chosen(const Key&, Bucket& /*out*/) {}

  // Warm starts and tables, for checkpoints.
  virtual void visit_state(StateVisitor&) {}
};

// The codec of these stages, such as read_stages() has made (stages.h); floats as they are where no stage quantises.
// ConfigError where they cannot follow each other. Work is shared out to the threads of `pool`, which
// codecs may have in common that are not used at the same time; what comes out does not depend on them. Without any,
// the calling thread does it alone.
std::unique_ptr<Codec> make_codec(const StageSpecs& stages, std::shared_ptr<ThreadPool> pool = nullptr);

}  // namespace sotto
