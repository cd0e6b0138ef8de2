#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/data/dataset.h"
#include "sotto/train/replica.h"

namespace sotto {

// How good a run's model is on the test data. Where ranks have models of their own, that is the mean of them.
struct TestResult {
  double accuracy = 0, top5 = 0, loss = 0;  // shares of 1; loss an example
  // Of ranks with models of their own; otherwise empty, and 0:
  std::vector<double> rank_accuracy;
  double consensus_distance = 0;  // the root of the mean over ranks of |x_r - mean|^2

  std::string text() const;  // one line
};

// Collective. Each rank takes its share of the data, but all of it for a model of its own.
TestResult test_together(Replica& replica, bool replicated, const Dataset& data, std::size_t batch,
                         Communicator& communicator);

}  // namespace sotto
