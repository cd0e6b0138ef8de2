#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/codec/stage.h"

namespace sotto {

// A group as far as it is known before there are values.
struct GroupSize {
  std::size_t atoms = 0;
  bool dense = false;
  std::size_t chunk = 0;  // as that of Atoms
};

// A selection stage as a chain uses it: what is dense goes past it, whole (but for its zeros, where single
// atoms are listed), and beside what it selects. Dense are the groups of segments of one dimension that have at most
// Select::dense() values (of the whole segment, however a part cuts it).
class Selection {
 public:
  Selection() = default;
  Selection(std::unique_ptr<Select> stage) : stage_(std::move(stage)) {}  // null: all atoms go

  explicit operator bool() const { return stage_ != nullptr; }
  Select* get() const { return stage_.get(); }
  Select* operator->() const { return stage_.get(); }
  Select& operator*() const { return *stage_; }
  bool is_dense(const Segment& segment) const;
  // Whether what it selects may be called chosen: it leaves something behind.
  bool chooses() const { return stage_ != nullptr && !stage_->sends_all(); }

  // As those of Select, for groups of which some are dense.
  std::size_t limits(std::span<const GroupSize> groups, std::span<std::size_t> each);
  void reserve(std::size_t atoms, std::size_t groups);
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales);
  Contract contract(std::span<const GroupSize> groups);

 private:
  bool is_dense(const Group& group) const { return group.dimensions <= 1 && group.values <= stage_->dense(); }
  // Groups that the stage is given in place of one of so many atoms.
  std::size_t chunks(std::size_t atoms, std::size_t chunk) const {
    return stage_->by_chunk() && chunk > 0 ? (atoms + chunk - 1) / chunk : 1;
  }
  void list_numbers(std::span<const GroupSize> groups);
  void list_others(std::span<const Group> groups);
  std::size_t blocks(std::size_t atoms) const { return (atoms + stage_->block() - 1) / stage_->block(); }
  std::size_t write_dense(const Group& group, std::uint32_t* out) const;

  std::unique_ptr<Select> stage_;
  std::vector<Group> others_;         // groups that are not dense, or their chunks,
  std::vector<std::size_t> numbers_;  // and how many atoms they have or send
  std::vector<std::size_t> each_;
  Scratch<std::uint32_t> dense_;  // atoms of those that are
};

}  // namespace sotto
