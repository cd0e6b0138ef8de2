#include "python/bindings/agreement.h"

#include <algorithm>
#include <span>
#include <vector>

namespace sotto::python {

int first_to_differ(Communicator& communicator, std::uint64_t value) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all)));
  const auto other = std::ranges::find_if(all, [&](std::uint64_t of_rank) { return of_rank != all[0]; });
  return other == all.end() ? -1 : static_cast<int>(other - all.begin());
}

}  // namespace sotto::python
