#include "sotto/algorithm/local/local.h"

#include <fmt/format.h>

#include <utility>

#include "sotto/algorithm/local/local_steps.h"
#include "sotto/codec/contract.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

constexpr Bounds steps_between{1, 1e6};
constexpr Bounds momenta{0, 1, false, true};
constexpr double by_memory = -1;  // of DilocoOptions::momentum

struct LocalOptions {
  std::int64_t h = 8;
  std::int64_t after = 0;
  void visit(OptionVisitor& v) {
    v.option("h", h, "steps of each rank's own between two exchanges", steps_between);
    v.option("after", after, "steps at the beginning with an exchange behind each", {0, 1e15});
  }
};

struct SlowmoOptions {
  std::int64_t h = 12;
  double momentum = 0.7;
  double lr = 1;
  std::string buffers = "keep";
  void visit(OptionVisitor& v) {
    v.option("h", h, "steps of each rank's own between two exchanges", steps_between);
    v.option("momentum", momentum, "share of the last slow step that is kept", momenta);
    v.option("lr", lr, "of the slow step, in rates of the ranks' own", Bounds::positive());
    v.option("buffers", buffers, "what becomes of the optimiser's own vectors behind an exchange",
             {"keep", "reset", "average"});
  }
};

struct DilocoOptions {
  std::int64_t h = 100;
  double lr = 0.7;
  double momentum = by_memory;
  std::int64_t shards = 1;
  std::int64_t overlap = 0;
  double alpha = 0.5;
  void visit(OptionVisitor& v) {
    v.option("h", h, "steps of each rank's own between two exchanges of a bucket", steps_between);
    v.option("lr", lr, "of the outer step; 1 goes to the mean of the models", Bounds::positive());
    v.option("momentum", momentum,
             "Nesterov's, of the outer step; -1: 0.9, and 0.5 where a memory sends most of it later",
             {by_memory, 1, false, true});
    v.option("shards", shards, "groups of buckets that are exchanged in turn", {1, 65535});
    v.option("overlap", overlap, "steps during which an exchange is on its way, below h", {0, 1e6});
    v.option("alpha", alpha, "with overlap: the share of a rank's own model that stays", {0, 1, false, true});
  }
};

std::uint64_t whole(std::int64_t option) { return static_cast<std::uint64_t>(option); }

// Whether a memory may have to send more than half of a difference later. That comes with the next ones, and a large
// momentum on top of it goes too far.
bool sends_late(const AlgorithmOptions& options, std::span<const BucketPlan> buckets) {
  for (const Phase& phase : options.phases) {
    if (phase.recipe.by_itself()) return true;  // power, which has a memory of its own
    if (!phase.recipe.memory) continue;
    const auto codec = make_codec(phase.recipe.stages);
    for (const BucketPlan& bucket : buckets) {
      if (contraction_of(codec->contract(bucket.layout)) < 0.5) return true;
    }
  }
  return false;
}

}  // namespace

std::unique_ptr<Algorithm> make_local(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                      std::span<const BucketPlan> buckets, Communicator& communicator) {
  LocalOptions own;
  read_options(sentence, call, own);
  const LocalPlan plan{.name = "local", .h = whole(own.h), .after = whole(own.after), .outer = {}};
  return std::make_unique<LocalSteps>(plan, options, buckets, communicator);
}

std::unique_ptr<Algorithm> make_slowmo(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator) {
  SlowmoOptions own;
  read_options(sentence, call, own);
  const LocalPlan plan{.name = "slowmo",
                       .h = whole(own.h),
                       .outer = {.lr = own.lr, .momentum = own.momentum, .in_rates = true},
                       .buffers = own.buffers == "reset"     ? Buffers::reset
                                  : own.buffers == "average" ? Buffers::average
                                                             : Buffers::keep};
  return std::make_unique<LocalSteps>(plan, options, buckets, communicator);
}

std::unique_ptr<Algorithm> make_diloco(const Sentence& sentence, const Call& call, const AlgorithmOptions& options,
                                       std::span<const BucketPlan> buckets, Communicator& communicator) {
  DilocoOptions own;
  read_options(sentence, call, own);
  if (own.overlap >= own.h) {
    fail_at(sentence, call, call.position,
            fmt::format("overlap={} must be below h={}: what was exchanged is applied before the next exchange",
                        own.overlap, own.h));
  }
  if (own.overlap == 0 && own.alpha != DilocoOptions{}.alpha) {
    fail_at(sentence, call, call.position, "alpha is of overlap above 0: without, the model is replaced");
  }
  std::string remark;
  if (own.momentum == by_memory) {
    const bool late = sends_late(options, buckets);
    own.momentum = late ? 0.5 : 0.9;
    if (late) remark = "diloco: outer momentum 0.5, as a memory sends most of a difference later";
  } else if (own.momentum < 0) {
    fail_at(sentence, call, call.position, "momentum must be in [0, 1), or -1");
  }
  const LocalPlan plan{.name = "diloco",
                       .h = whole(own.h),
                       .shards = static_cast<std::size_t>(own.shards),
                       .overlap = whole(own.overlap),
                       .alpha = own.alpha,
                       .outer = {.lr = own.lr, .momentum = own.momentum, .nesterov = own.momentum > 0},
                       .remark = std::move(remark)};
  return std::make_unique<LocalSteps>(plan, options, buckets, communicator);
}

std::string help_local() { return help_options(LocalOptions{}); }
std::string help_slowmo() { return help_options(SlowmoOptions{}); }
std::string help_diloco() { return help_options(DilocoOptions{}); }

}  // namespace sotto
