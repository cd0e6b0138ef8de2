#pragma once

#include <functional>
#include <span>
#include <string>

#include "sotto/comm/communicator.h"

namespace sotto::test {

// Three ranks average one bucket. Exchange number `which` of rank 1's second step is spoilt. Rank 1 must keep its
// gradient, e + g where the memory is `ef`, and all else that it remembers. Returns the message of its error.
std::string second_step_fails(const std::string& aggregator, const std::string& method, int which,
                              const std::function<void(std::span<Recv>)>& spoil);

// Spoils exchange `which` in every way, for each of `methods`. Each error must name rank 2, which sent the bad message.
void expect_bad_messages_are_refused(const std::string& aggregator, int which, std::span<const char* const> methods);

}  // namespace sotto::test
