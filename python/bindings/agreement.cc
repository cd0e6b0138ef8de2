#include "python/bindings/agreement.h"

#include <algorithm>
#include <span>

namespace sotto::python {

std::vector<std::uint64_t> of_all_ranks(Communicator& communicator, std::uint64_t value) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

int first_to_differ(const std::vector<std::uint64_t>& values) {
  const auto other = std::ranges::find_if(values, [&](std::uint64_t of_rank) { return of_rank != values[0]; });
  return other == values.end() ? -1 : static_cast<int>(other - values.begin());
}

int first_to_differ(Communicator& communicator, std::uint64_t value) {
  return first_to_differ(of_all_ranks(communicator, value));
}

}  // namespace sotto::python
