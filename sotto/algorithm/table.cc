#include "sotto/core/table.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/sync.h"

namespace sotto {
namespace {

constexpr AlgorithmEntry table[] = {
    {"sync", "every rank applies the mean gradient of all ranks", "Li et al., PyTorch Distributed, VLDB 2020",
     make_sync},
};

}  // namespace

std::span<const AlgorithmEntry> algorithm_table() { return table; }

std::unique_ptr<Algorithm> make_algorithm(std::string_view where, std::string_view sentence,
                                          const AlgorithmOptions& options, std::span<const BucketPlan> buckets,
                                          Communicator& communicator) {
  const Sentence parsed = parse_sentence(where, sentence);
  const Call& call = parsed.calls.front();
  if (parsed.calls.size() > 1) fail_at(parsed, call, parsed.calls[1].position, "an algorithm is a single call");
  return require_entry(algorithm_table(), "algorithm", parsed, call).make(parsed, call, options, buckets, communicator);
}

}  // namespace sotto
