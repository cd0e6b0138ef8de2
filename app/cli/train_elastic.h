#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "app/train/options/choices.h"

namespace sotto {

// Reads --elastic. Sets the number of ranks to the greatest one, unless it is known already, and returns the least one;
// 0 if the text is empty. ConfigError; `ranks_said` says what has given the number: "--ranks says".
std::int64_t read_elastic(const std::string& text, std::int64_t& ranks, std::string_view ranks_said);

// ConfigError, about that option, if the group of ranks of a run with these choices cannot change between these sizes.
void require_elastic(std::string_view option, const Choices& choices, std::int64_t least, std::int64_t most);

}  // namespace sotto
