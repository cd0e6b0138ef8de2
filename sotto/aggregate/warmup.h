#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/phased.h"
#include "sotto/core/table.h"

namespace sotto {

// A training that begins with a larger ratio than the codec's, which falls from epoch to epoch (Deep Gradient
// Compression, Lin et al., ICLR 2018, section 3.3). The ratio of epoch e, counted from 0, is
//   exponential(epochs=E)      r^((e+1)/(E+1)) with r the codec's; E = 0: that of coefficient(0.25), as in the paper,
//                              where of r = 0.1 % come 25, 6.25, 1.5625, 0.390625 and then 0.1 %
//   coefficient(c)             c^(e+1)
//   list(25%/6%/1%)            number e of the list
// as long as that is above r, or the list lasts. What changes is the first option `ratio` of the method. Where so many
// epochs are not less than the training, all ratios, the codec's as the last of them, have an equal share of its steps.
struct Warmup {
  std::vector<Phase> phases;
  std::string remark;  // that it was shortened; empty: it was not
};

// A line of the table of warm-ups.
struct WarmupEntry {
  std::string_view name;
  AnyOptions (*options)();
  std::vector<double> (*ratios)(const AnyOptions& options, double ratio);  // one an epoch, before `ratio`
};
const Table<WarmupEntry>& warmup_table();

using WarmupSpec = Spec<WarmupEntry>;

// Of a recipe, in a training of so many steps. ConfigError when the recipe has no ratio, or none to begin above.
Warmup make_warmup(const WarmupSpec& spec, const Recipe& recipe, std::uint64_t steps_per_epoch, std::uint64_t steps);

}  // namespace sotto
