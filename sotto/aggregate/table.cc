#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/all_reduce.h"
#include "sotto/aggregate/gather.h"
#include "sotto/codec/method.h"
#include "sotto/core/error.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

// In the order in which `auto` tries them.
constexpr AggregatorEntry table[] = {
    {"all_reduce", "one all-reduce of a linear form: dense f32, f16, bf16", all_reduce_suits, make_all_reduce},
    {"gather", "every message to every rank: any codec, few ranks", gather_suits, make_gather},
};

const AggregatorEntry& choose(std::string_view name, std::string_view where, const Codec& codec,
                              std::span<const BucketPlan> buckets) {
  if (name == "auto") {
    for (const AggregatorEntry& entry : table) {
      if (entry.suits(codec, buckets).empty()) return entry;
    }
  }
  const AggregatorEntry* entry = find_entry(aggregator_table(), name);
  if (entry == nullptr) {
    auto names = names_of(aggregator_table());
    names.emplace_back("auto");
    throw ConfigError("--aggregator " + std::string(name) + ": " + unknown_name("aggregator", name, names));
  }
  if (const std::string reason = entry->suits(codec, buckets); !reason.empty()) {
    throw ConfigError(std::string(where) + " with --aggregator " + std::string(name) + ": " + reason);
  }
  return *entry;
}

}  // namespace

std::span<const AggregatorEntry> aggregator_table() { return table; }

std::unique_ptr<Aggregator> make_aggregator(std::string_view where, std::string_view name, std::string_view method,
                                            std::vector<BucketPlan> buckets) {
  const Method parsed = parse_method(where, method, names_of(memory_table()));
  AggregatorParts parts;
  parts.codec = make_codec(where, parsed.codec);
  parts.memory = make_memory(where, parsed.memory, buckets);
  const AggregatorEntry& entry = choose(name == "auto" ? parsed.aggregator : name, where, *parts.codec, buckets);
  parts.buckets = std::move(buckets);
  return entry.make(std::move(parts));
}

}  // namespace sotto
