#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/codec/stages.h"
#include "sotto/core/expression.h"

namespace sotto {

// How vectors of all ranks are averaged, as a user wrote it: a codec such as "ef | topk(0.01) | f16" or the name of a
// preset, and optionally an aggregator. Read and checked once.
struct Recipe {
  std::string option = "codec";      // name of the option that was read
  std::string source_text = "none";  // text of that option
  MemorySpec memory{};               // none: nothing is held back
  AggregatorSpec aggregator{};       // none: one that fits is chosen (make_auto)
  StageSpecs stages{};               // of the codec, or of what follows a method such as `power`
  std::string preset{};              // its name, if one was used
  std::string optimiser = "auto";    // the optimiser that the preset is tied to; "auto": any

  // Whether the aggregator stands in place of a codec's stages.
  bool by_itself() const { return aggregator && aggregator.entry->method != nullptr; }
  // The codec with every option named, as checkpoints store it: "ef | topk(ratio=0.01, scope=segment, dense=1024) |
  // f32".
  std::string text() const;
};

// Reads a method. `aggregator` is a single call, from another option; null or "auto" if there is none. A preset that is
// tied to an aggregator refuses any other one. ConfigError with a caret in the user's own text.
Recipe read_recipe(const Expression& method, const Expression* aggregator = nullptr);
Recipe read_recipe(std::string_view method, std::string_view aggregator = "auto");  // texts of these options

// Reads an aggregator from an expression of a single call; "auto" gives an empty spec.
AggregatorSpec read_aggregator(const Expression& expression);

std::string text_of(const AggregatorSpec& aggregator);  // canonical; "auto" for an empty spec

// A warning about a recipe that may be used all the same; empty if there is none. It warns if nothing is compressed,
// because all segments have one dimension; if a memory would hold back nothing, or grow without bound; and if a codec
// without a memory loses much, or adds much noise. Contracts hold for the worst vector.
std::string warning_about(const Recipe& recipe, std::span<const BucketPlan> buckets,
                          const Spelling& spelling = plain_spelling);
// Whether a rank that sends zeros changes neither the sum of what the others send nor what is chosen for them.
bool ignores_zeros(const Recipe& recipe, std::span<const BucketPlan> buckets);
// The part of the recipe that makes the momentum itself, so that the optimiser must have none; empty if no part does.
std::string momentum_of(const Recipe& recipe);
// What kind of state the recipe holds back from step to step: "ef", or "fetch of count_sketch(..)"; empty if none. If
// two recipes hold the same kind, the second one can take over from the first (ScheduledAggregator).
std::string held_by(const Recipe& recipe);
// The recipe with f32 in place of its codec: "ef | f32". It holds nothing back, but a memory that makes a momentum
// still makes it. Its aggregator splits memories among ranks as the aggregator of `recipe` does.
Recipe without_codec(const Recipe& recipe);

// The optimiser to use, as an expression: `asked`, or the preset's if `asked` is "auto". Other options of the preset's
// optimiser ("signum(momentum=0)") are the user's choice. ConfigError if the preset is tied to a different optimiser.
std::string choose_optimiser(const Recipe& recipe, std::string_view asked);

// `pool` is passed to make_codec(). ConfigError if the parts do not fit together, or do not suit these buckets.
std::unique_ptr<Aggregator> make_aggregator(const Recipe& recipe, std::vector<BucketPlan> buckets, int rank, int ranks,
                                            std::shared_ptr<ThreadPool> pool = nullptr);
// Takes `rank` and `ranks` from the communicator.
std::unique_ptr<Aggregator> make_aggregator(const Recipe& recipe, std::vector<BucketPlan> buckets,
                                            const Communicator& communicator,
                                            std::shared_ptr<ThreadPool> pool = nullptr);
// Throws what make_aggregator() would throw, but allocates nothing of the size of the buckets.
void check_aggregator(const Recipe& recipe, std::span<const BucketPlan> buckets);

}  // namespace sotto
