#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/cli/trials.h"
#include "app/report/text_table.h"

namespace sotto {

// The command that makes the whole training of which the first trial of a contender is the beginning.
std::string command_of(const Contender& contender);

// The contenders in this order, with means and deviations over their seeds. Those that are not done are left out.
// `goal` is the metric of their task.
TextTable to_table(std::span<const Contender> order, std::span<const Dimension> space, const Scoring& scoring,
                   std::string_view goal);
// All contenders in this order.
std::string to_json(std::span<const Contender> order, std::span<const Dimension> space);
// "best: sotto train ..", and which contenders are as good, as far as the spread of seeds tells. REQUIRES that the
// first one is sound and has a score.
std::string best_text(std::span<const Contender> order, std::span<const Dimension> space, const Scoring& scoring);

}  // namespace sotto
