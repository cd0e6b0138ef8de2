#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// Globs of tensor names, as "*.bias,*norm*" has them: `*` is any text, `?` any character.

// The parts of a text between these characters, without the space around them.
std::vector<std::string> split_trimmed(std::string_view text, char at);
// ConfigError, which begins with `said`, if a pattern is empty.
std::vector<std::string> read_patterns(const std::string& said, std::string_view text);
bool matches(const std::string& pattern, const std::string& name);
// The error that a pattern matches no tensor; it names those that may have been meant.
std::string no_tensor(std::string_view option, const std::string& pattern, const Layout& layout);

}  // namespace sotto
