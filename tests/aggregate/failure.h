#pragma once

#include <functional>
#include <span>
#include <string>

#include "sotto/comm/communicator.h"

namespace sotto::test {

// Of three ranks, which average one bucket: exchange number `which` of rank 1 is spoilt, one of its second step. It
// must keep its gradient, e + g in a memory `ef`, and all else that it remembers. Returns what it says.
std::string second_step_fails(const std::string& aggregator, const std::string& method, int which,
                              const std::function<void(std::span<Recv>)>& spoil);

// Spoils exchange `which` of some methods in all ways that there are; each error must name rank 2, which sent it.
void expect_bad_messages_are_refused(const std::string& aggregator, int which, std::span<const char* const> methods);

}  // namespace sotto::test
