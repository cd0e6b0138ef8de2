#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sotto/comm/communicator.h"

// What the laws of communicators share, and the laws themselves; laws.cc has their table.
namespace sotto::law {

template <class... Args>
void require(bool holds, fmt::format_string<Args...> what, Args&&... args) {
  if (!holds) throw std::runtime_error(fmt::format(what, std::forward<Args>(args)...));
}

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Numbers whose sum depends on the order.
inline float rough(int rank, std::size_t i) {
  return 1.0F / (1.0F + static_cast<float>((i * 2654435761U + static_cast<std::size_t>(rank) * 40503U) % 1000003U));
}

// Of collectives: collective_laws.cc.
void all_reduce_is_exact(Communicator& communicator);
void all_types_are_reduced(Communicator& communicator);
void sums_are_in_the_documented_order(Communicator& communicator);
void gathers(Communicator& communicator);
void broadcasts(Communicator& communicator);
void barriers_end(Communicator& communicator);
void bytes_follow_the_formulas(Communicator& communicator);
// Of exchanges, clones and arguments: exchange_laws.cc.
void ragged_messages_arrive(Communicator& communicator);
void messages_stay_in_order(Communicator& communicator);
void all_to_all_arrives(Communicator& communicator);
void one_way_messages_arrive(Communicator& communicator);
void not_before_is_kept(Communicator& communicator);
void clones_work_beside(Communicator& communicator);
void arguments_are_checked(Communicator& communicator);

}  // namespace sotto::law
