#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/pieces.h"
#include "sotto/core/options.h"
#include "sotto/core/random.h"
#include "sotto/core/state.h"
#include "sotto/core/thread_pool.h"
#include "sotto/kernels/draws.h"

namespace sotto {

// The four kinds of stage, in the order in which they stand in a sentence. A stage sees one piece of a message at a
// time (pieces.h), knows nothing of headers, and keeps no state between messages but buffers and what spares it work
// (svd: its warm start; clusters: those that it found).
enum class StageKind : std::uint8_t { transform, select, quantise, code };

class Stage {
 public:
  virtual ~Stage() = default;
  // Threads to share work out to; its caller's alone before. What comes out is the same to the last bit.
  void use(std::shared_ptr<ThreadPool> pool) { pool_ = std::move(pool); }

 protected:
  ThreadPool& pool() const { return *pool_; }

 private:
  std::shared_ptr<ThreadPool> pool_ = std::make_shared<ThreadPool>(1);
};

// Random numbers of one message: a stream for each purpose and segment, so that they depend on (seed, rank, step,
// bucket, segment, element) alone, however the bucket is cut into parts.
struct Streams {
  Key key;
  std::uint16_t bucket = 0;
  Purpose selection = Purpose::select;  // of the selection at work: there may be two
  ElementStream stream(Purpose purpose, std::size_t segment) const {
    return element_stream(key.seed, purpose, key.rank, key.step, bucket, static_cast<std::uint32_t>(segment));
  }
};

// How a piece falls into atoms: `count` rows of `width` floats. Without a transform, every element is an atom of
// width 1.
struct Atoms {
  std::size_t count = 0;
  std::size_t width = 1;
  // A row is one vector (0), or two factors of a product: the first `split` floats and the others. Factors are
  // quantised one by one, and what scales a row scales its first factor.
  std::size_t split = 0;
  std::size_t first = 0;  // number of the first atom within the segment; random numbers belong to such numbers
  std::size_t chunk = 0;  // so many atoms that follow each other were made of a chunk; 0: there are no chunks
  std::size_t values() const { return count * width; }
};

// Vector -> atoms {energy, row}, and back: a spectral decomposition (row = u, sigma v; energy = sigma), a block
// transform (row = energy = coefficient), a sketch.
class Transform : public Stage {
 public:
  virtual Atoms atoms(const Layout& layout, const Piece& piece) const = 0;  // the same on every rank
  // energies: atoms.count numbers, by whose magnitude atoms are selected. rows: atoms.values(), row by row; the very
  // same floats as `energies` when the width is 1; empty where factors() is true. Where values are not finite, nor is
  // some energy.
  virtual void forward(const Layout& layout, const Piece& piece, const Streams& streams, std::span<const float> values,
                       std::span<float> energies, std::span<float> rows) = 0;
  // out += scale * what these rows stand for. `selected` are the ascending numbers of their atoms within the piece; the
  // others are zero.
  virtual void add_inverse(const Layout& layout, const Piece& piece, std::span<const std::uint32_t> selected,
                           std::span<const float> rows, float scale, std::span<float> out) = 0;
  virtual Contract contract(const Layout& layout) const = 0;  // as if all atoms were sent as they are
  virtual bool factors() const { return false; }              // rows are two factors: Atoms::split is not 0
  virtual bool has_chunks() const { return false; }           // Atoms::chunk is not 0
  // Where factors() is true, for a piece that forward() was called for, after all pieces: the rows of these atoms,
  // whose ascending numbers within the piece `selected` are, one after the other. Few are sent as a rule: so few are
  // made.
  virtual void write_factors(const Layout&, const Piece&, const Streams&, std::span<const float> /*values*/,
                             std::span<const std::uint32_t> /*selected*/, std::span<float> /*rows*/) {}
  // Whether a sum of rows of several ranks stands for the sum of their values: the map is the same on every rank.
  virtual bool linear() const { return false; }
  // Whether add_inverse() makes of such a sum the sum of what it makes of each: a sketch's largest elements are not.
  virtual bool additive() const { return linear(); }
  virtual void visit_state(StateVisitor&) {}  // warm starts
};

// What a selection sees of one piece, or of one factor of an atom. Atoms (or blocks of them) are numbered through a
// message, `first` is this group's first; and atoms through the segment, where its first has `number`.
struct Group {
  std::span<const float> energies;
  std::size_t segment = 0;
  std::size_t dimensions = 1;  // of the segment's tensor, which has `values`
  std::size_t values = 0;
  std::uint32_t first = 0;
  std::uint32_t number = 0;
  std::size_t atoms = 0;  // as many as energies, which a reader of a message has not
  std::size_t chunk = 0;  // as that of Atoms
};

// Which atoms go, and by what their rows are scaled.
class Select : public Stage {
 public:
  // each[g]: the most that group g (of atoms[g] atoms) can send; returns the most of all groups together.
  virtual std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const = 0;
  // Room for so many groups of so many atoms together, at most: select() then allocates nothing.
  virtual void reserve(std::size_t /*atoms*/, std::size_t /*groups*/) {}
  // Writes the ascending numbers of what is selected, and how many of each group; returns how many in all. Atoms that
  // are not finite count as the largest, so that they reach the quantiser, which finds them.
  virtual std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                             std::span<std::size_t> counts, std::span<float> scales) = 0;
  // Segments of one dimension with at most so many values, such as biases, go whole in every step: they
  // are not among the groups above.
  virtual std::size_t dense() const { return 0; }
  // Every atom goes in every step, as with a ratio of 1: then none of them was chosen.
  virtual bool sends_all() const { return false; }
  virtual bool pools() const { return false; }     // all groups of a message share what is selected
  virtual bool by_chunk() const { return false; }  // it is given the chunks of a transform as groups; block() is 1
  virtual bool scales() const { return false; }    // otherwise `scales` is empty, and rows go as they are
  // Looks at no energies: the chain sees to it that they are finite.
  virtual bool blind() const { return false; }
  // Blind, with the same streams on every rank: who knows the seed knows what is selected. So a message has the seed in
  // place of indices, and those of several ranks can be summed.
  virtual bool known() const { return false; }
  // Atoms that are selected together: those of a group fall into blocks of so many, the last of which may be shorter.
  // All that a selection numbers, counts and scales are blocks.
  virtual std::size_t block() const { return 1; }
  // Of x -> what is selected of x, for groups of these sizes.
  virtual Contract contract(std::span<const std::size_t> atoms) const = 0;
};

// Floats of one piece, and which random number belongs to each: its number within the segment (with rows: atom * width
// + column). `agreed` are the numbers of its segment that all ranks agreed on (Quantise::agreed_count).
struct Values {
  std::span<const float> data;
  kernels::Draws draws;
  std::span<const float> agreed;
  std::uint32_t step = 0;
  // The same from step to step, for what is remembered of a segment; none of a factor of a row, of which there are
  // many.
  std::optional<std::uint64_t> place = std::nullopt;

  // A stretch of them alone, of which all else that is known stays.
  Values part(std::size_t begin, std::size_t count) const {
    Values some = *this;
    some.data = data.subspan(begin, count);
    some.draws = draws.part(begin, count);
    return some;
  }
};

// The form in which the values of several ranks can be summed one by one.
class LinearForm {
 public:
  virtual ~LinearForm() = default;
  virtual DType type() const = 0;
  // values * scale, as type(). False when a value or product is not finite or too large for the type; `out` is then
  // void.
  virtual bool write(std::span<const float> values, float scale, std::span<std::byte> out) const = 0;
  // out += scale * value.
  virtual void add(std::span<const std::byte> in, float scale, std::span<float> out) const = 0;
};

class Bins;

// Symbols of one width, packed into whole bytes as kernels/bits.h says.
struct SymbolRun {
  unsigned width = 8;  // bits a symbol, 1 .. 32
  std::size_t count = 0;
  unsigned kind = 0;     // 0 or 1: of a unit that has two kinds of symbols, which are not alike
  std::size_t unit = 0;  // that it belongs to
  std::size_t bytes() const { return (count * width + 7) / 8; }
};
// The most that there can be of them, and of symbols of one width and kind in all.
struct RunLimits {
  std::size_t runs = 0, symbols = 0;
};

// Floats -> side information and symbols, both as bytes at any address. Where the contract's grain is an element or a
// block, stretches of whole blocks are quantised by several threads at once, as if each were alone; what of a message
// was checked is decoded so in any case, where all blocks or the one of the whole piece are given along. A stage of
// which whole() is true is given units as they are instead, one after the other, and shares out the work itself.
class Quantise : public Stage {
 public:
  // Bits a symbol, 1 .. 32, packed as they are; 0: packed in another way, and check() looks at the end of the last
  // byte.
  virtual unsigned width() const = 0;
  virtual std::size_t side_bytes(std::size_t /*values*/) const { return 0; }  // a multiple of 4, growing with `values`
  // Growing with `values`, as many bytes for a + b as for both when a is a multiple of group(), and at most one less in
  // any case. Where whole() is true: the most bytes that there can be, of which the rest need not hold.
  virtual std::size_t packed_bytes(std::size_t values) const { return (values * width() + 7) / 8; }
  // Bits a symbol of a unit of so many values, where that depends on them.
  virtual unsigned width_of(std::size_t /*values*/) const { return width(); }
  // How the symbols of a unit, which are `packed` bytes, fall into runs that follow each other, for a code: appends
  // these. Asked, as packed_size(), before check(), but after that. Bytes, where they are not of one width.
  virtual void list_runs(std::span<const std::byte> /*side*/, std::size_t values, std::size_t packed,
                         std::vector<SymbolRun>& runs) const {
    const SymbolRun run{.width = width_of(values), .count = values};
    runs.push_back(run.width > 0 && run.bytes() == packed ? run : SymbolRun{.width = 8, .count = packed});
  }
  virtual RunLimits run_limits(std::size_t values) const { return {1, values}; }
  virtual std::size_t group() const { return 8; }  // so many symbols are whole bytes
  virtual bool whole() const { return false; }
  // Where whole() is true: the bytes of the symbols, which encode() wrote to the front of `packed`, by the side
  // information. Asked before check(); WireError when encode() cannot have written that.
  virtual std::size_t packed_size(std::span<const std::byte> /*side*/, std::size_t values) const {
    return packed_bytes(values);
  }

  // So many numbers of each segment all ranks agree on (their maximum) before any of them encodes. A stage that asks
  // for some stands alone in front of a code: other stages would change what it proposed them for.
  virtual std::size_t agreed_count() const { return 0; }
  // This rank's numbers, of a whole segment. Finite, whatever the values are: encode() is what finds those that are
  // not.
  virtual void propose(std::span<const float> /*values*/, std::span<float> /*numbers: overwritten*/) {}

  // Room for units of at most so many values, and for what is remembered of a place: encode() then allocates nothing.
  virtual void reserve(std::optional<std::uint64_t> /*place*/, std::size_t /*values*/) {}
  // False when a value is not finite; the output is then void. REQUIRES side and packed of the sizes above.
  virtual bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) = 0;
  // WireError when encode() cannot have written these bytes of so many values.
  virtual void check(std::span<const std::byte> /*side*/, std::span<const std::byte> /*packed*/,
                     std::size_t /*values*/) const {}
  // out[i] += scale * value i. REQUIRES bytes that passed check().
  virtual void add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                           std::span<float> out) const = 0;
  virtual void visit_state(StateVisitor&) {}  // what is remembered of places

  // For pieces of at most `largest` values.
  virtual Contract contract(std::size_t largest) const = 0;
  // Not null for a cast, whose values can be summed as they are, where what stands before it is the same on every rank.
  virtual const LinearForm* linear() const { return nullptr; }
  // Not null where the symbols are bins (quantise/bins.h).
  virtual Bins* bins() { return nullptr; }
  // Whether it sketches bins, which the quantiser in front of it finds; that one is then given to it.
  virtual bool wants_bins() const { return false; }
  virtual void use_bins(std::unique_ptr<Quantise> /*quantise*/) {}
};

// What a code makes smaller: runs that follow each other and are all of `bytes`; units ascend.
template <class Byte>
struct SymbolRuns {
  std::span<Byte> bytes;
  std::span<const SymbolRun> runs;
};

// Bytes of a body -> fewer bytes.
class Code : public Stage {
 public:
  // It is given the symbols alone, the runs of each unit, and all else of a body goes as it is; otherwise the whole
  // body, a single run of bytes.
  virtual bool of_symbols() const { return false; }
  // Room for so many symbols, at most: neither of the two below then allocates anything.
  virtual void reserve(std::size_t /*symbols*/) {}
  // Size of the coded form in `out`; nothing when it does not fit there, and the body is then sent as it is.
  virtual std::optional<std::size_t> encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) = 0;
  // Fills out.bytes. What the runs are the message says, and is checked; WireError when the coded bytes are not those
  // of such runs. Bits behind the last symbol of a run may become anything: the chain checks that they are zero.
  virtual void decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) = 0;
};

}  // namespace sotto
