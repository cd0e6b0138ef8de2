#include "app/train/record/listener.h"

#include "app/train/record/consensus_csv.h"
#include "sotto/algorithm/algorithm.h"

namespace sotto {

std::vector<std::unique_ptr<Listener>> make_listeners(const Choices& choices, int rank, bool may_change) {
  const TrainOptions& options = choices.options;
  std::vector<std::unique_ptr<Listener>> listeners;
  if (options.csv_format == "sgp") listeners.push_back(make_sgp_csv(choices));
  if (options.tensorboard && (rank == 0 || may_change)) listeners.push_back(make_tensorboard(choices));
  if (rank != 0) return listeners;
  if (!choices.algorithm.entry->traits.replicated) listeners.push_back(make_consensus_csv(choices));
  if (options.metrics_port) listeners.push_back(make_metrics_page(choices));
  return listeners;
}

}  // namespace sotto
