#include "sotto/algorithm/gossip/pushed_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sotto/algorithm/compute.h"
#include "sotto/core/error.h"

namespace sotto {

void PushedModel::begin(Worker& worker) {
  if (x_.empty()) x_.assign(worker.parameters().begin(), worker.parameters().end());
  if (!shown_) show(worker);
}

void PushedModel::show(Worker& worker) {
  divide(x_, note_.weight, worker.parameters());
  shown_ = true;
}

void PushedModel::average_models(Worker& worker, Communicator& communicator, bool counts) {
  begin(worker);
  average_by_weight(x_, note_.weight, communicator, counts);
  show(worker);
}

void PushedModel::visit_state(StateVisitor& visitor) {
  visitor.visit(fmt::format("{}.x", name_), x_);
  if (!x_.empty() && x_.size() != size_) {
    const std::size_t read = std::exchange(x_, {}).size();
    throw FileError(fmt::format("{}.x has {} values, and should have {}: another model", name_, read, size_));
  }
  visit_weight(visitor, fmt::format("{}.weight", name_), note_.weight);
  shown_ = false;  // x may have been read
}

void PushedModel::take_over(std::span<const FormerRank> each, const std::function<void(StateVisitor&)>& read) {
  const auto count = static_cast<double>(each.size());
  std::vector<double> x;
  double weight = 0;
  for (const FormerRank& former : each) {
    read(*former.state);
    x.resize(x_.size());
    std::ranges::transform(x, x_, x.begin(), std::plus<>());
    weight += note_.weight;
  }
  x_.resize(x.size());
  std::ranges::transform(x, x_.begin(), [&](double sum) { return static_cast<float>(sum / count); });
  note_.weight = weight / count;
  shown_ = false;
}

}  // namespace sotto
