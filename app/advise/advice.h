#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/advise/trial.h"
#include "sotto/aggregate/auto_codec.h"

namespace sotto {

// The result of a short training with a method, and of one that sent everything: both from the same parameters, and on
// the same examples.
struct CheckedLoss {
  std::int64_t steps = 0;
  double loss = 0, dense = 0;  // training losses at the end; not finite: it diverged
  std::string tested{};        // the goal metric on the test examples, for people

  Quality quality(double at_first) const;  // by the share of what dense training gained since the loss `at_first`
};

// What a method would cost in each step.
struct Prediction {
  std::string codec;
  std::optional<Quality> quality{};      // nothing: the loss is not known, as with a user's codec
  std::optional<CheckedLoss> checked{};  // if the quality was found in that way
  bool plain = false;                    // dense, or a cast: nothing to choose, no memory
  double seconds = 0;                    // of a step
  double waiting = 0;                    // of it: for exchanges, after computing
  double work = 0;                       // of the communication thread of the busiest rank: codec, memory, sums
  double bytes_sent = 0;                 // of the rank that sends most
  double relative_error = 0;
  std::string aggregator{}, remark{};

  // Whether its loss is known to be as good as is asked for. A cast keeps the loss of dense training.
  bool is_good(Quality least) const { return plain || (quality && *quality <= least); }
};

// Best first: good methods before others, then by time. Methods whose steps are at most 3 % longer than the shortest
// ones left count as equally quick; among these, higher quality comes first, then smaller error.
void rank_predictions(std::vector<Prediction>& predictions, Quality least = Quality::low);

std::string milliseconds(double seconds);  // "12.3"; three digits below 1

// In words, what to do and why. The advice is not to compress, unless some other good method makes steps more than 5 %
// shorter than the quickest plain method does. A quicker method that is not good is named with the reason. Options in
// the text are marked (error.h). REQUIRES ranked predictions, with `none` among them.
std::string verdict(std::span<const Prediction> ranked, Quality least = Quality::low);

}  // namespace sotto
