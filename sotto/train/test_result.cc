#include "sotto/train/test_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/train/evaluate.h"

namespace sotto {
namespace {

double share(std::uint64_t hits, const Score& score) {
  return static_cast<double>(hits) / static_cast<double>(std::max<std::uint64_t>(1, score.count));
}

}  // namespace

std::string TestResult::text() const {
  std::string line = fmt::format("test loss {:.4f}  Prec@1 {:.2f}  Prec@5 {:.2f}", loss, accuracy * 100, top5 * 100);
  if (rank_accuracy.empty()) return line;
  const auto [least, most] = std::ranges::minmax(rank_accuracy);
  return line + fmt::format(" of the mean model; ranks' own {:.2f} to {:.2f}, {:.3g} apart", least * 100, most * 100,
                            consensus_distance);
}

TestResult test_together(Replica& replica, bool replicated, const Dataset& data, std::size_t batch,
                         Communicator& communicator) {
  TestResult result;
  Model& model = replica.model();
  auto parameters = replica.optimiser().to_evaluate();
  MeanModel mean;
  if (!replicated) {
    const Score mine = evaluate_alone(model, parameters, data, batch);
    const double accuracy = share(mine.top1, mine);
    result.rank_accuracy.resize(static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(std::as_bytes(std::span(&accuracy, 1)),
                            std::as_writable_bytes(std::span(result.rank_accuracy)));
    mean = mean_model(parameters.empty() ? model.parameters() : parameters, communicator);
    result.consensus_distance = mean.distance;
    parameters = mean.parameters;
  }
  const Score score = evaluate_together(model, parameters, data, batch, communicator);
  result.accuracy = share(score.top1, score);
  result.top5 = share(score.top5, score);
  result.loss = score.loss / static_cast<double>(std::max<std::uint64_t>(1, score.count));
  return result;
}

}  // namespace sotto
