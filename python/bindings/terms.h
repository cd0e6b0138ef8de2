#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/comm/communicator.h"

namespace sotto::python {

// Collective: the values of all ranks.
std::vector<std::uint64_t> of_all_ranks(Communicator& communicator, std::uint64_t value);

// Collective: what each rank gives, in order, on rank 0; nothing on the others.
std::vector<std::string> gather(Communicator& communicator, std::string_view own);

// Collective: the first rank whose value is not that of rank 0, or -1.
int first_to_differ(Communicator& communicator, std::uint64_t value);
// The same of values that are there already.
int first_to_differ(const std::vector<std::uint64_t>& values);

// What must be the same on all ranks: names (of arguments, where they are some) and values.
using Terms = std::vector<std::pair<std::string, std::string>>;
// Two ranks have the same hash where they have the same terms.
std::uint64_t hash_of(const Terms& terms);
// Collective: the first term in which that rank differs from rank 0: "seed is 2 there, and 1 on rank 0".
std::string difference(Communicator& communicator, const Terms& terms, int other);

// Collective, once ranks are connected and before anything else is sent: whether all have the same terms. A rank that
// cannot go on gives its reason, `refusal`, in place of them, and throws that; the others wait for it, and fail with
// what it says when it gives up. ConfigError where terms differ: "rank 2 " and what it does, "... rank 0, or in another
// way: " and the first difference.
void require_same_terms(Communicator& communicator, const Terms& terms, const std::exception_ptr& refusal,
                        std::string_view what_it_does);

// In place of a value, from a rank that has none.
constexpr std::uint64_t refused = 0;

}  // namespace sotto::python
