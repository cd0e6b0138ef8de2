#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sotto/core/options.h"
#include "sotto/core/table.h"
#include "sotto/optim/optimiser.h"

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

// Wraps an optimiser: clips the mean of the exchange before the optimiser gets it. If the whole gradient must be
// clipped at once, apply() must get all of it: std::logic_error otherwise. With asynchronous servers, where each
// worker's gradient makes an update, each worker clips its gradient before the inner optimiser's offer(), which may
// make a momentum of it.
class Clipped final : public Wrapped {
 public:
  Clipped(std::unique_ptr<Optimiser> inner, ClipSpec clip, std::size_t parameters);
  void take_shares(double share) override;
  std::span<float> offer(std::span<float> gradient, std::size_t begin) override;
  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override;

 private:
  ClipSpec clip_;
  std::size_t size_;
  bool offers_clipped_ = false;
};

}  // namespace sotto
