#include "sotto/capi/terms.h"

#include <fmt/format.h>

#include "sotto/core/hash.h"

namespace sotto {
namespace {

// One line for each term; neither names nor values contain tabs or newlines.
std::string text_of(const Terms& terms) {
  std::string text;
  for (const auto& [name, value] : terms) text += fmt::format("{}\t{}\n", name, value);
  return text;
}

Terms terms_of(std::string_view text) {
  Terms terms;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t tab = std::min(line.find('\t'), line.size());
    terms.emplace_back(line.substr(0, tab), line.substr(std::min(tab + 1, line.size())));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return terms;
}

}  // namespace

std::vector<std::uint64_t> of_all_ranks(Communicator& communicator, std::uint64_t value) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

std::vector<std::string> gather(Communicator& communicator, std::string_view own) {
  constexpr std::size_t most = std::size_t{64} << 20;  // bytes a message
  const auto sizes = of_all_ranks(communicator, own.size());
  std::vector<std::string> all;
  if (communicator.rank() == 0) all.emplace_back(own);
  for (int rank = 1; rank < communicator.size(); ++rank) {
    const std::size_t size = sizes[static_cast<std::size_t>(rank)];
    if (communicator.rank() == 0) all.emplace_back(size, '\0');
    for (std::size_t at = 0; at < size; at += most) {
      const std::size_t length = std::min(most, size - at);
      if (communicator.rank() == 0) {
        Recv recv{rank, std::as_writable_bytes(std::span(all.back()).subspan(at, length))};
        communicator.exchange({}, {&recv, 1});
      } else if (communicator.rank() == rank) {
        const Send send{0, std::as_bytes(std::span(own.substr(at, length)))};
        communicator.exchange({&send, 1}, {});
      }
    }
  }
  return all;
}

int first_to_differ(const std::vector<std::uint64_t>& values) {
  const auto other = std::ranges::find_if(values, [&](std::uint64_t of_rank) { return of_rank != values[0]; });
  return other == values.end() ? -1 : static_cast<int>(other - values.begin());
}

int first_to_differ(Communicator& communicator, std::uint64_t value) {
  return first_to_differ(of_all_ranks(communicator, value));
}

std::uint64_t hash_of(const Terms& terms) {
  Hash hash;
  hash.add(text_of(terms));
  return hash.value();
}

std::string difference(Communicator& communicator, const Terms& terms, int other) {
  const std::string own = text_of(terms);
  const auto sizes = of_all_ranks(communicator, own.size());
  const auto terms_of_rank = [&](int rank) {
    std::string text = own;
    text.resize(sizes[static_cast<std::size_t>(rank)]);
    communicator.broadcast(std::as_writable_bytes(std::span(text)), rank);
    return terms_of(text);
  };
  const Terms first = terms_of_rank(0), there = terms_of_rank(other);
  const auto [a, b] = std::ranges::mismatch(first, there);
  if (a == first.end()) return fmt::format("{} is {} there, and nothing on rank 0", b->first, b->second);
  if (b == there.end()) return fmt::format("{} is {} on rank 0, and nothing there", a->first, a->second);
  if (a->first != b->first) return fmt::format("{} stands there where rank 0 has {}", b->first, a->first);
  return fmt::format("{} is {} there, and {} on rank 0", a->first, b->second, a->second);
}

void require_same_terms(Communicator& communicator, const Terms& terms, const std::exception_ptr& refusal,
                        std::string_view what_it_does) {
  std::vector<std::uint64_t> all;
  try {
    all = of_all_ranks(communicator, refusal ? refusal_value : hash_of(terms));
  } catch (const CommError&) {
    if (!refusal) throw;
  }
  if (refusal) std::rethrow_exception(refusal);
  if (const auto one = std::ranges::find(all, refusal_value); one != all.end()) {
    communicator.barrier();  // fails when that rank has said why
    throw CommError(fmt::format("rank {} refuses; its own error says why", one - all.begin()));
  }
  if (const int other = first_to_differ(all); other >= 0) {
    throw ConfigError(fmt::format("rank {} {} rank 0, or in another way: {}", other, what_it_does,
                                  difference(communicator, terms, other)));
  }
}

}  // namespace sotto
