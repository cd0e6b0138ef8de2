#include "sotto/aggregate/memory/carrier.h"

#include "sotto/kernels/vector.h"

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
    const auto [sum, first] = kept_.try_emplace(std::string(name), std::move(values));
    if (first) {
      kernels::scale(share_, sum->second);
    } else {
      kernels::axpy(share_, values, sum->second);
    }
  } else if (const auto found = kept_.find(name); found != kept_.end()) {
    values = std::move(found->second);
  }
}

}  // namespace sotto
