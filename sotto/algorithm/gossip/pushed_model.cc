#include "sotto/algorithm/gossip/pushed_model.h"

#include "sotto/algorithm/compute.h"

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
  visit_model(visitor, "push_sum.x", x_, size_);
  visit_weight(visitor, "push_sum.weight", note_.weight);
  shown_ = false;  // x may have been read
}

void PushedModel::take_over(const FormerModels& models) {
  x_ = models.x();
  note_.weight = models.weight();
  shown_ = false;
}

}  // namespace sotto
