#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/comm/communicator.h"

namespace sotto {

// Collective: the values of all ranks.
std::vector<std::uint64_t> of_all_ranks(Communicator& communicator, std::uint64_t value);

// Collective: returns the texts of all ranks, in order, on rank 0; nothing on the others.
std::vector<std::string> gather(Communicator& communicator, std::string_view own);

// Collective: the first rank whose value differs from rank 0's, or -1.
int first_to_differ(Communicator& communicator, std::uint64_t value);
// The same for values that were collected already.
int first_to_differ(const std::vector<std::uint64_t>& values);

// What must be the same on all ranks: names, mostly of arguments, and values.
using Terms = std::vector<std::pair<std::string, std::string>>;
// Equal terms have equal hashes.
std::uint64_t hash_of(const Terms& terms);
// Collective: the first term in which rank `other` differs from rank 0: "seed is 2 there, and 1 on rank 0".
std::string difference(Communicator& communicator, const Terms& terms, int other);

// Collective; called when ranks are connected, before anything else is sent. ConfigError unless all ranks have the same
// terms: "rank 2 WHAT IT DOES rank 0, or in another way: " and the first difference. A rank that cannot continue passes
// its reason as `refusal`, and throws that. The other ranks wait for the reason, and fail with it.
void require_same_terms(Communicator& communicator, const Terms& terms, const std::exception_ptr& refusal,
                        std::string_view what_it_does);

// The value of a rank that refuses.
constexpr std::uint64_t refusal_value = 0;

}  // namespace sotto
