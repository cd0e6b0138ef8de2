#include "sotto/aggregate/aggregator.h"

#include <algorithm>
#include <cmath>

#include "sotto/aggregate/all_reduce.h"
#include "sotto/aggregate/auto.h"
#include "sotto/aggregate/gather.h"
#include "sotto/aggregate/scatter_reduce.h"
#include "sotto/codec/method.h"
#include "sotto/core/error.h"
#include "sotto/core/table.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

constexpr AggregatorEntry table[] = {
    {"all_reduce", "one all-reduce of a linear form: dense f32, f16, bf16", all_reduce_suits, make_all_reduce},
    {"gather", "every message to every rank: any codec, few ranks", gather_suits, make_gather},
    {"scatter_reduce", "each rank sums a chunk and sends its mean: any codec, many ranks", scatter_reduce_suits,
     make_scatter_reduce},
};

// The entry that was asked for by name.
const AggregatorEntry& find(std::string_view name, std::string_view where, const AggregatorParts& parts) {
  const AggregatorEntry* entry = find_entry(aggregator_table(), name);
  if (entry == nullptr) {
    auto names = names_of(aggregator_table());
    names.emplace_back("auto");
    throw ConfigError("--aggregator " + std::string(name) + ": " + unknown_name("aggregator", name, names));
  }
  if (const std::string reason = entry->suits(*parts.codec, parts.buckets); !reason.empty()) {
    throw ConfigError(std::string(where) + " with --aggregator " + std::string(name) + ": " + reason);
  }
  return *entry;
}

}  // namespace

std::span<const AggregatorEntry> aggregator_table() { return table; }

std::string canonical_method(std::string_view where, std::string_view method) {
  const Method parsed = parse_method(where, method, names_of(memory_table()));
  const auto memory = make_memory(where, parsed.memory, {});
  const std::string codec = make_codec(where, parsed.codec)->sentence();
  return parsed.memory.empty() ? codec : parsed.memory + " | " + codec;
}

void require_finite(const Bucket& bucket, const Key& key) {
  if (kernels::all_finite(bucket.values)) return;
  const auto bad = std::ranges::find_if(bucket.values, [](float value) { return !std::isfinite(value); });
  const auto at = static_cast<std::size_t>(bad - bucket.values.begin());
  throw NumericError("rank " + std::to_string(key.rank) + ": gradient of " + bucket.layout->name_at(at) + " holds " +
                     std::to_string(*bad) + " at step " + std::to_string(key.step));
}

std::unique_ptr<Aggregator> make_aggregator(std::string_view where, std::string_view name, std::string_view method,
                                            std::vector<BucketPlan> buckets, const Communicator& communicator) {
  const Method parsed = parse_method(where, method, names_of(memory_table()));
  AggregatorParts parts;
  parts.codec = make_codec(where, parsed.codec);
  parts.memory = make_memory(where, parsed.memory, buckets);
  parts.buckets = std::move(buckets);
  parts.rank = communicator.rank();
  parts.ranks = communicator.size();
  const std::string chosen = choose_aggregator("--aggregator", parsed, name);
  return chosen == "auto" ? make_auto(std::move(parts)) : find(chosen, where, parts).make(std::move(parts));
}

}  // namespace sotto
