#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/advise/trial.h"
#include "sotto/aggregate/candidates.h"

namespace sotto {

// What a method would cost in each step.
struct Prediction {
  std::string sentence;
  std::optional<Quality> quality{};  // nothing: the user's own sentence
  bool plain = false;                // dense, or a cast: nothing to choose, no memory
  double seconds = 0;                // of a step
  double waiting = 0;                // of it: for exchanges, after computing
  double work = 0;                   // of the communication thread of the busiest rank: codec, memory, sums
  double bytes_sent = 0;             // of the rank that sends most
  double relative_error = 0;
  std::string aggregator{}, remark{};
};

// The work of the busiest rank in a step, in seconds: the mean over the steps.
double work_of(std::span<const StepTrace> steps);

// Whether it is dense or a cast.
bool is_plain(const Recipe& recipe);

// Best first: the quickest one. Methods whose steps are at most 3 % longer than that of the quickest one left count as
// equally quick; of these the one of higher quality comes first, then the one of smaller error.
void rank_predictions(std::vector<Prediction>& predictions);

std::string milliseconds(double seconds);  // "12.3"; three digits below 1

// In words, what to do and why. The advice is not to compress, unless some other method makes steps more than 5 %
// shorter than the quickest plain method does. REQUIRES ranked predictions, with `none` among them.
std::string verdict(std::span<const Prediction> ranked);

}  // namespace sotto
