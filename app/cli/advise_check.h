#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "app/train/options/options.h"

namespace sotto {

// The result of one training of the check. Its losses are not finite if it diverged or failed.
struct CheckedRun {
  std::string error{};                                           // why it failed, unless it diverged
  double first_loss = std::numeric_limits<double>::quiet_NaN();  // before the first step
  double last_loss = first_loss;                                 // the mean over the last tenth of the steps
  std::string tested{"-"};                                       // the goal metric on the test examples
};

// Trains for `steps` steps with each of the codecs, each in a new run folder under `folder`: from the same parameters,
// on the same examples, by ranks of this machine. It leaves out the emulated link, on which no loss depends. Returns 0,
// or the status of a signal that ended it. Error if the first training, which is to be `none`, fails.
int train_for_check(const TrainOptions& options, std::int64_t steps, const std::string& folder,
                    std::span<const std::string> codecs, std::vector<CheckedRun>& runs);

}  // namespace sotto
