#include "sotto/codec/select/block.h"

#include <cmath>

#include "sotto/kernels/reduce.h"

namespace sotto {

void Block::reserve(std::size_t atoms, std::size_t groups) {
  if (traits().blind) return;
  const std::size_t most = share_.blocks(atoms) + groups;
  norms_.room(most);
  candidates_.reserve(most);
  of_norms_.reserve(groups);
}

std::size_t Block::select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                          std::span<std::size_t> counts, std::span<float> scales) {
  if (traits().blind) return share_.select(pool(), groups, streams, indices, counts, scales);
  const std::size_t together = traits().pools ? groups.size() : 1;
  std::size_t total = 0;
  for (std::size_t g = 0; g < groups.size(); g += together) {
    of_norms_.clear();
    std::size_t n = 0;
    for (const Group& group : groups.subspan(g, together)) n += share_.blocks(group.atoms);
    auto room = norms_.room(n);
    for (const Group& group : groups.subspan(g, together)) {
      Group its = group;
      its.atoms = share_.blocks(group.atoms);
      const auto norms = room.first(its.atoms);
      room = room.subspan(its.atoms);
      find_norms(group, norms);
      its.energies = norms;
      of_norms_.push_back(its);
    }
    total += candidates_.select_largest(pool(), share_of(options_.ratio, n), of_norms_, indices.subspan(total),
                                        counts.subspan(g, together));
  }
  return total;
}

// Norms are divided by the square root of `size`, so that even a block of the largest floats has a finite norm.
void Block::find_norms(const Group& group, std::span<float> norms) {
  const std::size_t size = share_.block;
  pool().run_stretches(
      norms.size(), std::max<std::size_t>(pool().grain() / size, 1), [&](std::size_t begin, std::size_t end) {
        for (std::size_t b = begin; b < end; ++b) {
          const auto block = group.energies.subspan(b * size, std::min(size, group.atoms - b * size));
          norms[b] = static_cast<float>(std::sqrt(kernels::sum_squares(block) / static_cast<double>(size)));
        }
      });
}

}  // namespace sotto
