#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/codec/stages.h"
#include "sotto/core/sentence.h"

namespace sotto {

// How vectors of all ranks are averaged, as a user said it: a sentence such as "ef | topk(0.01) | f16", or the name of
// a preset, and perhaps an aggregator beside it. Read and checked once.
struct Recipe {
  std::string option = "codec";    // that says it, and
  std::string said = "none";       // what it says
  MemorySpec memory{};             // none: nothing is held back
  AggregatorSpec aggregator{};     // none: one that fits is chosen
  StageSpecs stages{};             // of the codec, or what follows an aggregator that stands in its place
  std::string preset{};            // whose name it was; or empty
  std::string optimiser = "auto";  // a sentence of the one that the preset is tied to; "auto": any

  // The aggregator stands in the sentence, in place of a codec.
  bool by_itself() const { return aggregator && aggregator.entry->method != nullptr; }
  // The sentence with every option named, as it stands in checkpoints: "ef | topk(ratio=0.01, scope=segment,
  // dense=1024) | f32".
  std::string text() const;
};

// ConfigError with a caret in the user's own text. `aggregator` is what was said beside the sentence, a single call;
// null, or "auto": nothing. A preset that is tied to another one refuses it.
Recipe read_recipe(const Sentence& method, const Sentence* aggregator = nullptr);
Recipe read_recipe(std::string_view method, std::string_view aggregator = "auto");  // of `codec` and `aggregator`

// What a sentence of a single call says of the aggregator; none of "auto".
AggregatorSpec read_aggregator(const Sentence& sentence);

std::string text_of(const AggregatorSpec& aggregator);  // canonical; "auto" of none

// What is to be said against a recipe that may be used all the same; empty: nothing. A memory wants a codec that leaves
// out less than the whole, and a codec that leaves out much wants a memory. Bounds are those of the worst vector.
std::string doubt_about(const Recipe& recipe, std::span<const BucketPlan> buckets);
// The part of it that makes the momentum itself, so that the optimiser must have none; empty: nothing does.
std::string momentum_of(const Recipe& recipe);
// What it holds back from step to step, and nobody else could take over: "ef", or "fetch of count_sketch(..)"; empty:
// nothing. What two recipes name alike goes over from one to the other (Phased).
std::string held_by(const Recipe& recipe);
// The same without its codec: "ef | f32", which holds nothing back, but makes the momentum that its memory makes. Its
// aggregator is one that holds memories as that of the recipe does.
Recipe without_codec(const Recipe& recipe);

// The optimiser of a preset, or the one that was asked for ("auto": none), as a sentence; another one of the same kind
// ("signum(momentum=0)") is the user's choice. ConfigError where the preset is tied to another.
std::string choose_optimiser(const Recipe& recipe, std::string_view asked);

// `pool` are those of make_codec(). ConfigError when parts do not fit together, or these buckets.
std::unique_ptr<Aggregator> make_aggregator(const Recipe& recipe, std::vector<BucketPlan> buckets, int rank, int ranks,
                                            std::shared_ptr<ThreadPool> pool = nullptr);
// For the ranks of a communicator.
std::unique_ptr<Aggregator> make_aggregator(const Recipe& recipe, std::vector<BucketPlan> buckets,
                                            const Communicator& communicator,
                                            std::shared_ptr<ThreadPool> pool = nullptr);
// Throws what make_aggregator() would throw, and makes nothing of the size of the buckets.
void check_aggregator(const Recipe& recipe, std::span<const BucketPlan> buckets);

}  // namespace sotto
