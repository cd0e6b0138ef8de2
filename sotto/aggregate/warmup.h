#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/scheduled_aggregator.h"
#include "sotto/core/examples.h"
#include "sotto/core/table.h"

namespace sotto {

// A training that begins with a larger ratio than the codec's. The ratio falls from epoch to epoch (Deep Gradient
// Compression, Lin et al., ICLR 2018, section 3.3). With r the codec's ratio, the ratio of epoch e, counted from 0, is
//   exponential(epochs=E)      r^((e+1)/(E+1)); E = 0: as coefficient(0.25), which is the paper's choice and makes
//                              25, 6.25, 1.5625, 0.390625 and then 0.1 % of r = 0.1 %
//   coefficient(c)             c^(e+1)
//   list(25%/6%/1%)            entry e of the list
// until this ratio is no longer above r, or the list ends. If a method has several options `ratio`, only the first one
// changes. With the memory `momentum` a ratio of 1 is a dense step (without_codec()). If these epochs do not fit into
// the training, all ratios, with the codec's as the last, get an equal share of its steps.
struct Warmup {
  std::vector<Phase> phases;
  std::string remark;  // says that it was shortened; empty if it was not
};

// A line of the table of warm-ups.
struct WarmupEntry {
  std::string_view name;
  AnyOptions (*options)();
  std::vector<double> (*ratios)(const AnyOptions& options, double ratio);  // one per epoch, before `ratio`
};
const Table<WarmupEntry>& warmup_table();

using WarmupSpec = Spec<WarmupEntry>;

// The phases of a recipe in a training of `steps` steps. ConfigError if the recipe has no ratio, or none to fall to.
Warmup make_warmup(const WarmupSpec& spec, const Recipe& recipe, const EpochLength& epoch, std::uint64_t steps);

}  // namespace sotto
