#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto {

struct ClipOptions {
  double most = 1;
  std::string when = "after";
  void visit(OptionVisitor& v) {
    v.option("most", most, "the largest norm, or magnitude of an element, that is left as it is",
             Bounds::at_least(1e-30));
    v.option("when", when, "clip each rank's own gradient before the exchange, or the mean after it",
             {"before", "after"});
  }
};

// A line of the table of ways to clip gradients.
struct ClipEntry {
  std::string_view name;
  std::string_view summary;
  bool whole;  // needs the whole gradient at once; otherwise stretches of it give the same
  AnyOptions (*options)();
  void (*clip)(std::span<float> gradient, double most);
};
const Table<ClipEntry>& clip_table();

// Without an entry gradients stay as they are.
using ClipSpec = Spec<ClipEntry>;

// Whether gradients are clipped at this time: "before" or "after" the exchange.
bool clips(const ClipSpec& spec, std::string_view when);

// Clips a gradient, or a stretch of one unless the entry says `whole`. Values that are not finite do not become finite,
// so that the exchange finds them.
void clip(const ClipSpec& spec, std::span<float> gradient);

}  // namespace sotto
