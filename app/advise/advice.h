#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/advise/trial.h"
#include "sotto/aggregate/auto_codec.h"

namespace sotto {

// The results of two short trainings: with a method, and dense. Both began with the same parameters, and had the same
// examples.
struct CheckedLoss {
  std::int64_t steps = 0;
  double loss = 0, dense = 0;  // training losses at the end; not finite: it diverged
  std::string tested{};        // the goal metric on the test examples, for people

  Quality quality(double at_first) const;  // from the share of the dense training's gain since the loss `at_first`
};

// What a method would cost in each step.
struct Prediction {
  std::string codec;
  std::optional<Quality> quality{};      // nothing: the loss is not known, as with a user's codec
  std::optional<CheckedLoss> checked{};  // if the quality comes from such trainings
  bool plain = false;                    // dense, or a cast: without options and memory
  double seconds = 0;                    // of a step
  double waiting = 0;                    // of these: seconds of waiting for exchanges after computing
  double work = 0;                       // seconds of the busiest rank's communication thread: codec, memory, sums
  double bytes_sent = 0;                 // of the rank that sends most
  double relative_error = 0;
  std::string aggregator{}, remark{};

  // Whether the loss is known to be at least as good as `least`. A cast keeps the loss of dense training.
  bool is_good(Quality least) const { return plain || (quality && *quality <= least); }
};

// Sorts predictions, best first: good methods before others, then by time. Methods whose steps are within 3 % of the
// quickest that is not placed yet count as equally quick; among these, higher quality comes first, then smaller error.
void rank_predictions(std::vector<Prediction>& predictions, Quality least = Quality::low);

std::string milliseconds(double seconds);  // "12.3"; three digits below 1

// The advice and its reason, in words. The advice is not to compress, unless the steps of a good method are more than 5
// % shorter than those of the quickest plain one. A quicker method that is not good is named, with the reason. Options
// in the text are marked (error.h). REQUIRES ranked predictions, with `none` among them.
std::string verdict(std::span<const Prediction> ranked, Quality least = Quality::low);

}  // namespace sotto
