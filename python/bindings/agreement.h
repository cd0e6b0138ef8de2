#pragma once

#include <cstdint>
#include <exception>
#include <string_view>
#include <vector>

#include "sotto/comm/communicator.h"

namespace sotto::python {

// Collective: the values of all ranks.
std::vector<std::uint64_t> of_all_ranks(Communicator& communicator, std::uint64_t value);

// Collective: the first rank whose value is not that of rank 0, or -1.
int first_to_differ(Communicator& communicator, std::uint64_t value);
// The same of values that are there already.
int first_to_differ(const std::vector<std::uint64_t>& values);

// Collective, once ranks are connected and before anything else is sent: whether all have the same value. A rank that
// cannot go on gives its reason, `refusal`, in place of it, and throws that; the others wait for it, and fail with what
// it says when it gives up. ConfigError where values differ: "rank 2 " and what it does, "... rank 0, or in another
// way".
void agree_to_start(Communicator& communicator, std::uint64_t value, const std::exception_ptr& refusal,
                    std::string_view what_it_does);

// In place of a value, from a rank that has none.
constexpr std::uint64_t refused = 0;

}  // namespace sotto::python
