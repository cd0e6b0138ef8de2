#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

// The option `dense` of all selections; Selection explains it.
struct DenseOption {
  std::string dense = "1024";
  void visit_dense(OptionVisitor& v) {
    v.option(
        "dense", dense,
        "one-dimensional segments, such as biases, of at most this many values are sent whole; all: of any length");
  }
  std::string problem() const;     // what is wrong with the option; empty if nothing
  std::size_t most_dense() const;  // REQUIRES no problem()
};

// The properties of a group that are known before there are values.
struct GroupSize {
  std::size_t atoms = 0;
  bool dense = false;
  std::size_t chunk = 0;  // see Atoms::chunk
};

// A selection stage as a chain uses it: dense groups bypass the stage and are sent whole, in addition to what the stage
// selects. (Where single atoms are listed, the zeros of dense groups are left out.) A group is dense if its segment has
// one dimension and at most SelectTraits::dense values; the size of the whole segment counts, however a part cuts it.
class Selection {
 public:
  Selection() = default;
  Selection(std::unique_ptr<Select> stage)  // null: all atoms are sent
      : stage_(std::move(stage)), traits_(stage_ ? stage_->traits() : SelectTraits{.sends_all = true}) {}

  explicit operator bool() const { return stage_ != nullptr; }
  Select* get() const { return stage_.get(); }
  Select* operator->() const { return stage_.get(); }
  Select& operator*() const { return *stage_; }
  const SelectTraits& traits() const { return traits_; }
  bool is_dense(const Segment& segment) const;
  // Whether selected atoms count as chosen, that is, whether the stage leaves any out.
  bool chooses() const { return !traits_.sends_all; }

  // Like the functions of Select, but some of the groups may be dense.
  std::size_t limits(std::span<const GroupSize> groups, std::span<std::size_t> each);
  void reserve(std::size_t atoms, std::size_t groups);
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales);
  Contract contract(std::span<const GroupSize> groups);

 private:
  bool is_dense(const Group& group) const { return group.dimensions <= 1 && group.values <= traits_.dense; }
  // Number of groups that the stage gets in place of one group of `atoms` atoms.
  std::size_t chunks(std::size_t atoms, std::size_t chunk) const {
    return traits_.by_chunk && chunk > 0 ? (atoms + chunk - 1) / chunk : 1;
  }
  void list_numbers(std::span<const GroupSize> groups);
  void list_others(std::span<const Group> groups);
  std::size_t blocks(std::size_t atoms) const { return (atoms + traits_.block - 1) / traits_.block; }
  std::size_t write_dense(const Group& group, std::uint32_t* out) const;

  std::unique_ptr<Select> stage_;
  SelectTraits traits_{.sends_all = true};
  std::vector<Group> others_;         // groups that are not dense, or their chunks
  std::vector<std::size_t> numbers_;  // how many atoms each of `others_` has or sends
  std::vector<std::size_t> each_;
  Scratch<std::uint32_t> dense_;  // the atoms of dense groups
};

}  // namespace sotto
