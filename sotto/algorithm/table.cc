#include "sotto/core/table.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/d_psgd.h"
#include "sotto/algorithm/push_sum.h"
#include "sotto/algorithm/sync.h"

namespace sotto {
namespace {

constexpr AlgorithmEntry table[] = {
    {"sync", "every rank applies the mean gradient of all ranks", "Li et al., PyTorch Distributed, VLDB 2020",
     make_sync},
    {"push_sum", "each rank takes its own step, and mixes its model with those of neighbours",
     "Assran et al., ICML 2019", make_push_sum},
    {"d_psgd", "as push_sum on symmetric graphs, while the gradient is computed", "Lian et al., NeurIPS 2017",
     make_d_psgd},
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
