#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/pieces.h"
#include "sotto/core/random.h"
#include "sotto/core/state.h"
#include "sotto/core/thread_pool.h"
#include "sotto/kernels/run.h"

namespace sotto {

// The four kinds of stage, in the order in which a codec lists them. A stage sees one piece of a message at a time
// (pieces.h) and knows nothing of headers. Between messages it keeps only buffers, and values that save work: svd keeps
// its warm starts, and clusters its clusters.
enum class StageKind : std::uint8_t { transform, select, quantise, code };

class Stage {
 public:
  virtual ~Stage() = default;
  // Sets the threads that share the work; before this call the calling thread works alone. The result is the same to
  // the last bit.
  void use(std::shared_ptr<ThreadPool> pool) { pool_ = std::move(pool); }
  virtual void visit_state(StateVisitor&) {}  // the warm starts of svd, the clusters of each place

 protected:
  ThreadPool& pool() const { return *pool_; }

 private:
  std::shared_ptr<ThreadPool> pool_ = std::make_shared<ThreadPool>(1);
};

// The random numbers of one message. Each purpose and segment has its own stream, so they depend only on (seed, rank,
// step, bucket, segment, element), not on how the bucket is cut into parts.
struct Streams {
  Key key;
  std::uint16_t bucket = 0;
  Purpose selection = Purpose::select;  // of the current selection: a codec may have two
  ElementStream stream(Purpose purpose, std::size_t segment) const {
    return element_stream(key.seed, purpose, key.rank, key.step, bucket, static_cast<std::uint32_t>(segment));
  }
};

// How a piece is divided into atoms: `count` rows of `width` floats. Without a transform, every element is an atom of
// width 1.
struct Atoms {
  std::size_t count = 0;
  std::size_t width = 1;
  // split = 0: a row is one vector. Otherwise a row is a product of two factors: the first `split` floats and the
  // others. The factors are quantised separately, and the scale of a row is applied to its first factor.
  std::size_t split = 0;
  std::size_t first = 0;  // number of the first atom within the segment; random numbers are indexed by these numbers
  std::size_t chunk = 0;  // a chunk yields this many consecutive atoms; 0: there are no chunks
  std::size_t values() const { return count * width; }
};

struct TransformTraits {
  bool factors = false;  // rows are products of two factors: Atoms::split is not 0
  bool chunks = false;   // Atoms::chunk is not 0
  bool linear = false;   // the map is the same on every rank, so a sum of rows represents the sum of the values
  // add_inverse() of such a sum equals the sum of the single results. A sketch is linear, but not additive: it recovers
  // only the largest elements.
  bool additive = false;
};

// Maps a vector to atoms {energy, row} and back. Examples: a spectral decomposition (row = u, sigma v; energy = sigma),
// a block transform (row = energy = coefficient), a sketch.
class Transform : public Stage {
 public:
  virtual Atoms atoms(const Layout& layout, const Piece& piece) const = 0;  // the same on every rank
  // `energies` has atoms.count numbers; atoms are selected by their magnitude. `rows` has atoms.values() floats, row by
  // row. With width 1 both spans are the same memory; `rows` is empty if traits().factors. If a value is not finite,
  // some energy is not finite either.
  virtual void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
                       std::span<float> energies, std::span<float> rows) = 0;
  // out += scale * (the inverse transform of `rows`). Row j belongs to atom selected[j] of the piece, in ascending
  // order; the rows of all other atoms are zero.
  virtual void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                           std::span<const float> rows, float scale, std::span<float> out) = 0;
  virtual Contract contract(const Layout& layout) const = 0;  // if all atoms are sent unchanged
  virtual TransformTraits traits() const { return {}; }
  // Only if traits().factors (svd has them); called after forward() has been called for all pieces. Writes the rows of
  // the atoms in `selected` (ascending numbers within the piece), one after the other. Usually few atoms are selected,
  // so only their rows are computed.
  virtual void write_factors(const Layout&, const Piece&, const Streams&, std::span<const float> /*values*/,
                             std::span<const std::uint32_t> /*selected*/, std::span<float> /*rows*/) {}
};

// What a selection sees of one piece, or of one factor of an atom. The group's first atom (or block of atoms) is number
// `first` in the message, and `number` in the segment.
struct Group {
  std::span<const float> energies;
  std::size_t segment = 0;
  std::size_t dimensions = 1;  // of the segment's tensor, which has `values` elements
  std::size_t values = 0;
  std::uint32_t first = 0;
  std::uint32_t number = 0;
  std::size_t atoms = 0;  // as many as energies; a reader of a message has no energies
  std::size_t chunk = 0;  // see Atoms::chunk
};

struct SelectTraits {
  // Segments of one dimension with at most this many values, such as biases, are sent whole in every step. The
  // selection does not see their groups.
  std::size_t dense = 0;
  bool sends_all = false;  // every atom is sent in every step, as with a ratio of 1, so none counts as chosen
  bool pools = false;      // selects from all groups of a message together
  bool by_chunk = false;   // the chunks of a transform are its groups; `block` is 1
  bool scales = false;     // select() writes scales; otherwise rows are not scaled
  bool blind = false;      // does not look at energies, so the chain checks that they are finite
  // The selection is blind and draws the same random numbers on every rank, so the seed determines it. A message then
  // holds the seed in place of indices, and the messages of several ranks can be summed.
  bool shared = false;
  // Number of atoms that are selected together. A group is divided into blocks of this size; its last block may be
  // shorter. The selection numbers, counts and scales blocks.
  std::size_t block = 1;
};

// Chooses the atoms to send and the scales of their rows.
class Select : public Stage {
 public:
  // each[g]: the most that group g (of atoms[g] atoms) can send. Returns the most that all groups together can send.
  virtual std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const = 0;
  // Allocates for at most `atoms` atoms in `groups` groups in all, so that select() allocates nothing.
  virtual void reserve(std::size_t /*atoms*/, std::size_t /*groups*/) {}
  // Writes the ascending numbers of the selected atoms and the count for each group; returns the total. Atoms that are
  // not finite count as the largest, so that they reach the quantiser, which reports them. `scales` is empty unless
  // traits().scales.
  virtual std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                             std::span<std::size_t> counts, std::span<float> scales) = 0;
  virtual SelectTraits traits() const = 0;
  // The contract of x -> (the selected part of x), for groups of these sizes.
  virtual Contract contract(std::span<const std::size_t> atoms) const = 0;
};

// Floats of one piece, and the number of each float's random draw. This is the float's number within the segment (for
// rows: atom * width + column). `agreed` holds the numbers that all ranks agreed on for this segment (AgreedNumbers).
struct Values {
  std::span<const float> data;
  kernels::Draws draws;
  std::span<const float> agreed;
  std::uint32_t step = 0;
  // A stage that remembers something of a segment finds it by this key, the same in every step. Empty for factors of
  // rows: there are too many of them.
  std::optional<std::uint64_t> place = std::nullopt;

  // A contiguous part of the data and draws; all other members stay the same.
  Values part(std::size_t begin, std::size_t count) const {
    Values some = *this;
    some.data = data.subspan(begin, count);
    some.draws = draws.part(begin, count);
    return some;
  }
};

// Symbols of one width, packed into whole bytes (see kernels/bits.h).
struct SymbolRun {
  unsigned width = 8;  // bits a symbol, 1 .. 32
  std::size_t count = 0;
  unsigned kind = 0;     // 0 or 1: a unit may have two kinds of symbols with different statistics
  std::size_t unit = 0;  // number of the unit that contains the run
  std::size_t bytes() const { return (count * width + 7) / 8; }
};
// The most runs, and the most symbols of one width and kind in all runs together.
struct RunLimits {
  std::size_t runs = 0, symbols = 0;
};

// How many bytes symbols take: `group` of them fill `bytes` whole bytes.
struct Packing {
  std::size_t group = 8, bytes = 0;
  // Bits a symbol, 1 .. 32, without gaps. 0: symbols are packed in another way, and check() inspects the end of the
  // last byte.
  unsigned width = 0;
  static constexpr Packing of_width(unsigned width) { return {.bytes = width, .width = width}; }
  std::size_t bytes_of(std::size_t symbols) const { return (symbols * bytes + group - 1) / group; }
};

// The output of a quantiser for a unit, for whole blocks of a unit, or for all units of a message.
struct Quantised {
  std::span<const std::byte> side, packed;  // side information and symbols, without alignment

  Quantised part(Range of_side, Range of_packed) const {
    return {side.subspan(of_side.begin, of_side.size()), packed.subspan(of_packed.begin, of_packed.size())};
  }
};

// Maps floats to side information and symbols, both as bytes without alignment. If the contract's grain is an element
// or a block, several threads encode stretches of whole blocks at once, each as if it were alone. add_decoded() is
// called for such stretches whatever the grain is. `side` then has the side information of the blocks in that stretch
// or, if the piece is one block, of that block. A quantiser may also offer the interfaces below, by deriving from them:
// WholeUnits, AgreedNumbers, MergedUnits, PooledUnits, LinearForm, BinSketch, Bins (quantise/bins.h).
class Quantise : public Stage {
 public:
  virtual Packing packing() const { return {}; }                              // never called for WholeUnits
  virtual std::size_t side_bytes(std::size_t /*values*/) const { return 0; }  // a multiple of 4, growing with `values`
  // Allocates for units of at most `values` values and for what the stage remembers of `place`; encode() then allocates
  // nothing.
  virtual void reserve(std::optional<std::uint64_t> /*place*/, std::size_t /*values*/) {}
  // Returns false if a value is not finite; the output is then unspecified. REQUIRES side and packed of the sizes
  // above.
  virtual bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) = 0;
  // WireError if encode() cannot have written these bytes for `values` values.
  virtual void check(const Quantised& /*in*/, std::size_t /*values*/) const {}
  // out[i] += scale * value i. REQUIRES bytes that passed check().
  virtual void add_decoded(const Quantised& in, float scale, std::span<float> out) const = 0;
  virtual Contract contract(std::size_t largest) const = 0;  // for pieces of at most `largest` values
};

// Offered by a quantiser that encodes whole units one after the other and divides the work itself. Only the side
// information of a unit says how many bytes its symbols take.
class WholeUnits {
 public:
  virtual ~WholeUnits() = default;
  virtual std::size_t max_packed_bytes(std::size_t values) const = 0;
  // The number of symbol bytes that encode() wrote to the front of `packed`. Called before check(). WireError if
  // encode() cannot have written that side information.
  virtual std::size_t packed_size(std::span<const std::byte> side, std::size_t values) const = 0;
  // Appends the runs of symbols of a unit to `runs`, for a code. Called after packed_size() and before check().
  virtual void list_runs(std::span<const std::byte> side, std::size_t values, std::vector<SymbolRun>& runs) const = 0;
  // Only a sketch has several runs.
  virtual RunLimits run_limits(std::size_t values) const { return {1, values}; }
};

// Offered by a quantiser whose ranks first agree on numbers, their maximum over the ranks. The only other stage that
// the codec may have is a code: other stages would change the values for which the numbers were proposed.
class AgreedNumbers {
 public:
  virtual ~AgreedNumbers() = default;
  virtual std::size_t agreed_count() const = 0;  // numbers a segment; 0: none with these options
  // Writes this rank's numbers for a whole segment; `place` is the place of its Values. They are finite whatever the
  // values are: encode() is what reports values that are not finite.
  virtual void propose(std::span<const float> values, std::uint64_t place, std::span<float> numbers) = 0;
};

// Offered by a quantiser that can add up the units of several messages before they are decoded, if all of them were
// encoded with the same agreed numbers. The size of its units depends on the number of values alone.
class MergedUnits {
 public:
  virtual ~MergedUnits() = default;
  virtual bool merges() const = 0;  // false: not with these options
  // Whether such units of `values` values, one of each message, can be added up. They have passed check().
  virtual bool can_merge(std::span<const Quantised> units, std::size_t values) const = 0;
  // out[i] += scale * (the sum over the units of value i). Writes to `merged` the side information that replaces each
  // unit's side information. With it, add_decoded() of a unit adds the unit's share of the sum, except for the rounding
  // of sums. REQUIRES can_merge(), `merged` of the size of a unit's side information, and out.size() values.
  virtual void add_merged(std::span<const Quantised> units, float scale, std::span<std::byte> merged,
                          std::span<float> out) const = 0;
};

// Offered by a quantiser whose unit may be all pieces of a message together, one after the other, in place of a unit
// for each piece. No transform may precede it then. Only `clusters` offers it; the chain need not know that name.
class PooledUnits {
 public:
  virtual ~PooledUnits() = default;
  virtual bool pools() const = 0;
};

// Offered by a cast, whose values can be summed element by element if the stages before it are the same on every rank.
class LinearForm {
 public:
  virtual ~LinearForm() = default;
  virtual DType type() const = 0;
  // Writes values * scale as type(). Returns false if a value or product is not finite or too large for the type; `out`
  // is then unspecified.
  virtual bool write(std::span<const float> values, float scale, std::span<std::byte> out) const = 0;
  // out += scale * value.
  virtual void add(std::span<const std::byte> in, float scale, std::span<float> out) const = 0;
};

// Offered by a quantiser that sketches the bins of the quantiser before it: only by `minmax_sketch`. It is an
// interface, so that the code that assembles codecs need not know that name.
class BinSketch {
 public:
  virtual ~BinSketch() = default;
  virtual void use_bins(std::unique_ptr<Quantise> quantise) = 0;  // REQUIRES a quantiser that offers Bins
};

// The input of a code: consecutive runs that together fill `bytes`; the runs' units ascend.
template <class Byte>
struct SymbolRuns {
  std::span<Byte> bytes;
  std::span<const SymbolRun> runs;
};

// Bytes of a body -> fewer bytes.
class Code : public Stage {
 public:
  // True: the code gets only the symbols, as the runs of each unit, and the rest of the body stays unchanged. False:
  // the code gets the whole body as a single run of bytes.
  virtual bool of_symbols() const { return false; }
  // Allocates for at most `symbols` symbols, so that encode() and decode() allocate nothing. Only codes of symbols need
  // it: the others allocate when they are made.
  virtual void reserve(std::size_t /*symbols*/) {}
  // Writes the coded form to `out` and returns its size, or nothing if it does not fit; the body is then sent uncoded.
  virtual std::optional<std::size_t> encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) = 0;
  // Adds to bytes[r] the number of bytes of the coded form of `in` that belong to run r; the other bytes belong to all
  // runs. Returns false, and does nothing, if the code cannot tell: only codes of symbols can. REQUIRES runs that
  // encode() has coded.
  virtual bool add_shares(const SymbolRuns<const std::byte>& /*in*/, std::span<std::size_t> /*bytes*/) { return false; }
  // Fills out.bytes. The runs come from the message and have been checked. WireError if the coded bytes do not decode
  // to such runs. The bits after the last symbol of a run may have any value: the chain checks that they are zero.
  virtual void decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) = 0;
};

}  // namespace sotto
