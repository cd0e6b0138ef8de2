#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/layout.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

// Tensors whose steps have their own options.
struct ParameterGroup {
  std::vector<std::string> patterns;  // globs of tensor names: `*` is any text, `?` any character
  OptimiserSpec optimiser;            // with the options of the group
  double lr_scale = 1;                // multiplies the learning rate

  std::string names() const;  // the patterns, as the user wrote them
};

// Parses "*.bias,*norm*: weight-decay=0; head.*: lr-scale=0.1", in which a group has `lr-scale` and the options of the
// optimiser. An empty text has no group. ConfigError, about `option`.
std::vector<ParameterGroup> read_groups(std::string_view option, std::string_view text, const OptimiserSpec& all);

// The group of each tensor: the first one with a pattern that matches its name, or groups.size() if there is none.
// ConfigError, about `option`, if a group matches no tensor, or a pattern only tensors of earlier groups.
std::vector<std::size_t> groups_of_tensors(std::string_view option, std::span<const ParameterGroup> groups,
                                           const Layout& layout);

// Says which pattern matches no tensor, as `*norm*` in "*.bias,*norm*" where a network has no norms; empty if every
// pattern matches one.
std::string groups_doubt(std::string_view option, std::span<const ParameterGroup> groups, const Layout& layout);

// Makes an optimiser that consists of one optimiser for each group, and one with the options `all` for the other
// tensors. Each has the state of its tensors alone.
std::unique_ptr<Optimiser> make_grouped(std::string_view option, std::span<const ParameterGroup> groups,
                                        const OptimiserSpec& all, const Layout& layout);

// Globs of tensor names, as "*.bias,*norm*" has them: `*` is any text, `?` any character.

// The parts of a text between these characters, without the space around them.
std::vector<std::string> split_trimmed(std::string_view text, char at);
// ConfigError, which begins with `said`, if a pattern is empty.
std::vector<std::string> read_patterns(const std::string& said, std::string_view text);
bool matches(const std::string& pattern, const std::string& name);
// The error that a pattern matches no tensor; it names those that may have been meant.
std::string no_tensor(std::string_view option, const std::string& pattern, const Layout& layout);

}  // namespace sotto
