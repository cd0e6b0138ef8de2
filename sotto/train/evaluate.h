#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/data/dataset.h"
#include "sotto/model/model.h"

namespace sotto {

// The score of every `ranks`-th example of the data, beginning with `rank`, `batch` examples at a time.
Score evaluate_share(Model& model, const Dataset& data, std::size_t batch, int rank, int ranks);

// The score of all data, by this rank alone, with the parameters that are given, if any.
Score evaluate_alone(Model& model, std::span<const float> parameters, const Dataset& data, std::size_t batch);

// The score of all data, shared out over the ranks. Batch-norm statistics are their mean over ranks while it runs, and
// parameters those that are given, if any.
Score evaluate_together(Model& model, std::span<const float> parameters, const Dataset& data, std::size_t batch,
                        Communicator& communicator);

// The mean of the ranks' models, and how far they are from it: the root of the mean of |x_r - mean|^2.
struct MeanModel {
  std::vector<float> parameters;
  double distance = 0;
};
MeanModel mean_model(std::span<const float> parameters, Communicator& communicator);

}  // namespace sotto
