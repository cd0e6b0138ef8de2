#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sotto/cli/trials.h"
#include "sotto/report/text_table.h"

namespace sotto {

// The command that makes the whole training of which a trial is the beginning.
std::string command_of(const Trial& trial);

// The trials in this order. Those that are not done are left out. `goal` is the metric of their task.
TextTable to_table(std::span<const Trial> trials, std::span<const std::size_t> order, std::span<const Dimension> space,
                   const Scoring& scoring, std::string_view goal);
// All trials in this order.
std::string to_json(std::span<const Trial> trials, std::span<const std::size_t> order,
                    std::span<const Dimension> space);

}  // namespace sotto
