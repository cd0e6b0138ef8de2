#include "sotto/codec/selection.h"

#include <algorithm>
#include <numeric>

#include "sotto/kernels/select.h"

namespace sotto {

bool Selection::is_dense(const Segment& segment) const {
  return is_dense({.energies = {}, .dimensions = segment.shape.size(), .values = segment.numel()});
}

std::size_t Selection::limits(std::span<const GroupSize> groups, std::span<std::size_t> each) const {
  numbers_.clear();
  for (const GroupSize& group : groups) {
    if (!group.dense) numbers_.push_back(group.atoms);
  }
  each_.resize(numbers_.size());
  std::size_t total = stage_->limits(numbers_, each_);
  auto next = each_.begin();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    each[g] = groups[g].dense ? blocks(groups[g].atoms) : *next++;
    if (groups[g].dense) total += each[g];
  }
  return total;
}

void Selection::reserve(std::size_t atoms, std::size_t groups) const {
  stage_->reserve(atoms, groups);
  others_.reserve(groups);
  numbers_.reserve(groups);
  if (stage_->dense() > 0) dense_.room(atoms);
}

std::size_t Selection::select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                              std::span<std::size_t> counts, std::span<float> scales) const {
  others_.clear();
  std::ranges::copy_if(groups, std::back_inserter(others_), [this](const Group& group) { return !is_dense(group); });
  if (others_.size() == groups.size()) return stage_->select(groups, streams, indices, counts, scales);

  numbers_.resize(others_.size());
  const std::size_t selected = stage_->select(others_, streams, indices, numbers_, scales);
  std::size_t atoms = 0;
  for (const Group& group : groups) atoms += is_dense(group) ? group.atoms : 0;
  std::uint32_t* const begin = dense_.room(atoms).data();
  std::uint32_t* end = begin;
  auto next = numbers_.begin();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (is_dense(groups[g])) {
      counts[g] = write_dense(groups[g], end);
      end += counts[g];
    } else {
      counts[g] = *next++;
    }
  }
  // From the last group on, each moves to where it belongs, which is never before where it stands.
  const std::size_t total = selected + static_cast<std::size_t>(end - begin);
  std::uint32_t* from = indices.data() + selected;
  std::uint32_t* to = indices.data() + total;
  for (std::size_t g = groups.size(); g > 0 && from < to;) {
    --g;
    const bool is_whole = is_dense(groups[g]);
    std::uint32_t*& its_end = is_whole ? end : from;
    if (!scales.empty()) {
      const auto scales_end = scales.data() + (to - indices.data());
      if (is_whole) {
        std::fill(scales_end - counts[g], scales_end, 1.0F);
      } else {
        const auto its = scales.data() + (from - indices.data());
        std::copy_backward(its - counts[g], its, scales_end);
      }
    }
    to = std::copy_backward(its_end - counts[g], its_end, to);
    its_end -= counts[g];
  }
  return total;
}

std::size_t Selection::write_dense(const Group& group, std::uint32_t* out) const {
  if (!stage_->known() && stage_->block() == 1) {
    return kernels::collect_magnitudes(group.energies, 1, group.first, out);
  }
  const std::size_t count = blocks(group.atoms);
  std::iota(out, out + count, group.first);
  return count;
}

Contract Selection::contract(std::span<const GroupSize> groups) const {
  numbers_.clear();
  for (const GroupSize& group : groups) {
    if (!group.dense) numbers_.push_back(group.atoms);
  }
  return stage_->contract(numbers_);
}

}  // namespace sotto
