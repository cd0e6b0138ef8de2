#include "sotto/codec/selection.h"

#include <fmt/format.h>

#include <numeric>

#include "sotto/kernels/select.h"

namespace sotto {

// Each number has only one valid text: codecs whose texts differ do not understand each other's messages.
std::string DenseOption::problem() const {
  constexpr double most = 4294967295.0;  // the most elements of a message
  if (dense == "all") return "";
  try {
    if (fmt::to_string(parse_int("dense", dense, Bounds{0, most})) == dense) return "";
    return fmt::format("dense must be written without leading zeros, not `{}`", dense);
  } catch (const ConfigError& error) {
    return fmt::format("{}, or `all`", error.what());
  }
}

std::size_t DenseOption::most_dense() const {
  return dense == "all" ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(parse_int("dense", dense));
}

bool Selection::is_dense(const Segment& segment) const {
  return is_dense({.energies = {}, .dimensions = segment.shape.size(), .values = segment.numel()});
}

std::size_t Selection::limits(std::span<const GroupSize> groups, std::span<std::size_t> each) {
  list_numbers(groups);
  each_.resize(numbers_.size());
  std::size_t total = stage_->limits(numbers_, each_);
  const std::size_t* next = each_.data();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].dense) {
      each[g] = blocks(groups[g].atoms);
      total += each[g];
    } else {
      const std::size_t* end = next + chunks(groups[g].atoms, groups[g].chunk);
      each[g] = std::accumulate(next, end, std::size_t{0});
      next = end;
    }
  }
  return total;
}

// Lists the number of atoms of each group that the stage gets.
void Selection::list_numbers(std::span<const GroupSize> groups) {
  numbers_.clear();
  for (const GroupSize& group : groups) {
    if (group.dense) continue;
    const std::size_t count = chunks(group.atoms, group.chunk);
    for (std::size_t c = 1; c < count; ++c) numbers_.push_back(group.chunk);
    numbers_.push_back(group.atoms - (count - 1) * group.chunk);
  }
}

void Selection::list_others(std::span<const Group> groups) {
  others_.clear();
  for (const Group& group : groups) {
    if (is_dense(group)) continue;
    const std::size_t count = chunks(group.atoms, group.chunk);
    for (std::size_t c = 0; c < count; ++c) {
      const std::size_t begin = c * group.chunk;
      Group part = group;
      part.atoms = c + 1 < count ? group.chunk : group.atoms - begin;
      if (!group.energies.empty()) part.energies = group.energies.subspan(begin, part.atoms);
      part.first += static_cast<std::uint32_t>(begin);
      part.number += static_cast<std::uint32_t>(begin);
      others_.push_back(part);
    }
  }
}

void Selection::reserve(std::size_t atoms, std::size_t groups) {
  stage_->reserve(atoms, groups);
  others_.reserve(groups);
  numbers_.reserve(groups);
  if (traits_.dense > 0) dense_.room(atoms);
}

std::size_t Selection::select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                              std::span<std::size_t> counts, std::span<float> scales) {
  const bool any_dense = std::ranges::any_of(groups, [this](const Group& group) { return is_dense(group); });
  if (!any_dense && !traits_.by_chunk) return stage_->select(groups, streams, indices, counts, scales);

  list_others(groups);
  numbers_.resize(others_.size());
  const std::size_t selected = stage_->select(others_, streams, indices, numbers_, scales);
  std::size_t atoms = 0;
  for (const Group& group : groups) atoms += is_dense(group) ? group.atoms : 0;
  std::uint32_t* const begin = dense_.room(atoms).data();
  std::uint32_t* end = begin;
  const std::size_t* next = numbers_.data();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (is_dense(groups[g])) {
      counts[g] = write_dense(groups[g], end);
      end += counts[g];
    } else {
      const std::size_t* its_end = next + chunks(groups[g].atoms, groups[g].chunk);
      counts[g] = std::accumulate(next, its_end, std::size_t{0});
      next = its_end;
    }
  }
  // Moves the entries to their final places, the last group first, because no entry moves to an earlier place.
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
  if (!traits_.shared && traits_.block == 1) {
    return kernels::collect_magnitudes(group.energies, 1, group.first, out);
  }
  const std::size_t count = blocks(group.atoms);
  std::iota(out, out + count, group.first);
  return count;
}

Contract Selection::contract(std::span<const GroupSize> groups) {
  list_numbers(groups);
  return stage_->contract(numbers_);
}

}  // namespace sotto
