#include "python/bindings/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "sotto/core/error.h"

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

void agree_to_start(Communicator& communicator, std::uint64_t value, const std::exception_ptr& refusal,
                    std::string_view what_it_does) {
  std::vector<std::uint64_t> all;
  try {
    all = of_all_ranks(communicator, refusal ? refused : value);
  } catch (const CommError&) {
    if (!refusal) throw;
  }
  if (refusal) std::rethrow_exception(refusal);
  if (const auto one = std::ranges::find(all, refused); one != all.end()) {
    communicator.barrier();  // fails, once that rank has said why
    throw CommError(fmt::format("rank {} refuses; its own error says why", one - all.begin()));
  }
  if (const int other = first_to_differ(all); other >= 0) {
    throw ConfigError(fmt::format("rank {} {} rank 0, or in another way", other, what_it_does));
  }
}

}  // namespace sotto::python
