#include "sotto/aggregate/memory/carrier.h"

namespace sotto {

void MemoryCarrier::take(Aggregator& from) {
  from.retire();
  from.visit_state(*this);
}

void MemoryCarrier::give(Aggregator& to) {
  giving_ = true;
  to.visit_state(*this);
}

void MemoryCarrier::visit(std::string_view name, std::vector<float>& values) {
  if (!name.starts_with("memory.")) return;
  if (!giving_) {
    auto& sum = kept_[std::string(name)];
    sum.resize(values.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += share_ * values[i];
  } else if (const auto found = kept_.find(name); found != kept_.end()) {
    values = found->second;
  }
}

}  // namespace sotto
