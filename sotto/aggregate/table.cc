#include "sotto/aggregate/aggregator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sotto/aggregate/all_reduce.h"
#include "sotto/aggregate/auto.h"
#include "sotto/aggregate/auto_codec.h"
#include "sotto/aggregate/fetch.h"
#include "sotto/aggregate/gather.h"
#include "sotto/aggregate/hierarchical.h"
#include "sotto/aggregate/power.h"
#include "sotto/aggregate/scatter_reduce.h"
#include "sotto/aggregate/sparse.h"
#include "sotto/aggregate/vote.h"
#include "sotto/codec/method.h"
#include "sotto/core/error.h"
#include "sotto/core/table.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

constexpr AggregatorEntry table[] = {
    {"all_reduce", "one all-reduce of a linear form: dense f32, f16, bf16", all_reduce_suits, make_all_reduce},
    {"gather", "every message to every rank: any codec, few ranks", gather_suits, make_gather},
    {"gather_held", "the same, but an element's mean is over the ranks that chose it: DeMo", gather_held_suits,
     make_gather_held},
    {"scatter_reduce", "each rank sums a chunk and sends its mean: any codec, many ranks", scatter_reduce_suits,
     make_scatter_reduce},
    {"sparse", "each rank sums a region and sends its largest: codecs that choose elements, many ranks", sparse_suits,
     make_sparse},
    {"vote", "each rank counts the signs of a chunk and sends the majority: signs", vote_suits, make_vote},
    {"hierarchical", "dense inside groups of ranks, such as hosts, and compressed between them: any codec",
     hierarchical_suits, make_hierarchical, help_hierarchical, canonical_hierarchical, hierarchical_fits},
};

constexpr MethodEntry methods[] = {
    {"power", "matrices as products of a few vectors, which are summed on the way",
     "PowerSGD: Vogels et al., NeurIPS 2019", "ef", false, false, false,
     "biased, |C(x)-x|^2 <= |x|^2: a projection of the mean, on columns that get better from step to step; the memory "
     "keeps the rest; linear",
     "4 rank (rows + columns) a matrix and 4 a value of what stays as it is, in two all-reduces; half behind f16",
     power_bytes, help_power, canonical_power, [](const AggregatorParts&) { return std::string(); }, make_power},
    {"fetch", "sums of sketches, in which momentum and error are kept; a step is their largest elements",
     "FetchSGD: Rothchild et al., ICML 2020", "", true, true, true,
     "biased: the largest elements as the sketch estimates them; the sketch, which is linear, keeps the rest",
     "4 rows x columns of the sketch that follows it, in an all-reduce", fetch_bytes, help_fetch, canonical_fetch,
     fetch_suits, make_fetch},
    {"auto", "none, f16 or qsgd(bits=4), whichever is quickest on this link in the first steps", "", "", false, false,
     false, "that of its choice", "those of its choice", nullptr, [] { return std::string(); }, canonical_auto_codec,
     auto_codec_suits, make_auto_codec},
};

const MethodEntry& method_of(const Sentence& sentence) {
  return require_entry(method_table(), "method", sentence, sentence.calls.front());
}

// The flag or argument that names the aggregator, beside the one that holds the sentence.
std::string beside(std::string_view where) { return where.starts_with("--") ? "--aggregator" : "aggregator"; }

struct NoAggregatorOptions {
  void visit(OptionVisitor& /*visitor*/) {}
};

// The entry that parts.asked calls, which then has every option named.
const AggregatorEntry& find(std::string_view where, AggregatorParts& parts) {
  const Sentence sentence = parse_sentence(beside(where), parts.asked);
  const Call& call = sentence.calls.front();
  if (sentence.calls.size() > 1) fail_at(sentence, call, sentence.calls[1].position, "an aggregator is a single call");
  const AggregatorEntry* entry = find_entry(aggregator_table(), call.name);
  if (entry == nullptr) {
    if (find_entry(method_table(), call.name) != nullptr) {
      throw ConfigError(beside(where) + " " + call.name + ": it is a method of its own; write it in the sentence of " +
                        std::string(where));
    }
    auto names = names_of(aggregator_table());
    names.emplace_back("auto");
    throw ConfigError(beside(where) + " " + call.name + ": " + unknown_name("aggregator", call.name, names));
  }
  std::string reason;
  if (entry->canonical != nullptr) {
    parts.asked = entry->canonical(sentence, call);
    reason = entry->fits(parts.asked, *parts.codec, parts.buckets);
  } else {
    NoAggregatorOptions none;
    read_options(sentence, call, none);
    parts.asked = call.name;
    reason = entry->suits(*parts.codec, parts.buckets);
  }
  if (reason.empty()) return *entry;
  throw ConfigError(std::string(where) + " with " + beside(where) + " " + call.name + ": " + reason);
}

// What was asked for. The memory is not for these buckets yet, so that nothing here has their size.
struct Asked {
  Method method;
  AggregatorParts parts;
};

Asked check(std::string_view where, std::string_view name, std::string_view text, std::vector<BucketPlan> buckets,
            std::shared_ptr<Workers> workers) {
  Asked asked{read_method(where, text), {}};
  AggregatorParts& parts = asked.parts;
  parts.memory = make_memory(where, asked.method.memory, {});
  parts.codec = make_codec(where, asked.method.codec, workers);
  parts.workers = std::move(workers);
  parts.buckets = std::move(buckets);
  parts.asked = choose_aggregator(beside(where), asked.method, name);
  if (asked.method.by_itself) {
    const Sentence sentence = parse_sentence(where, asked.method.aggregator);
    const Call& call = sentence.calls.front();
    const std::string reason = method_of(sentence).suits(parts);
    if (!reason.empty()) fail_at(sentence, call, call.position, reason);
    if (parts.asked == asked.method.aggregator) return asked;
  }
  if (parts.asked != "auto") find(where, parts);
  return asked;
}

}  // namespace

std::span<const AggregatorEntry> aggregator_table() { return table; }
std::span<const MethodEntry> method_table() { return methods; }

std::string aggregator_options() {
  std::string text;
  for (const AggregatorEntry& entry : table) {
    if (entry.help != nullptr) text += "Options of " + std::string(entry.name) + ":\n" + entry.help();
  }
  return text;
}

Method read_method(std::string_view where, std::string_view method) {
  Method parsed = parse_method(where, method, names_of(memory_table()), names_of(method_table()));
  // What a memory is told it alone can check: in the user's own text, unless that is the name of a preset.
  if (!parsed.memory.empty()) make_memory(where, parsed.preset.empty() ? method : parsed.memory, {});
  if (!parsed.by_itself) return parsed;
  const Sentence sentence = parse_sentence(where, parsed.aggregator);
  const MethodEntry& entry = method_of(sentence);
  parsed.aggregator = entry.canonical(sentence, sentence.calls.front());
  if (parsed.memory.empty()) parsed.memory = entry.memory;
  if (!entry.forms && parsed.codec.find('|') != std::string::npos) {
    throw ConfigError(std::string(where) + " " + std::string(method) + ": what follows `" + std::string(entry.name) +
                      "` is a cast of what it sums: f32, f16 or bf16");
  }
  return parsed;
}

std::string doubt_about(std::string_view where, std::string_view method, std::span<const BucketPlan> buckets) {
  const Method parsed = read_method(where, method);
  const MemoryEntry* memory = memory_entry(where, parsed.memory);
  if (memory == nullptr) return "";
  const auto codec = make_codec(where, parsed.codec);
  double worst = 0;
  for (const BucketPlan& plan : buckets) {
    const Contract contract = codec->contract(plan.layout);
    if (contract.kind == Contract::Kind::unbiased) worst = std::max(worst, contract.omega);
  }
  if (worst < 1) return "";
  return fmt::format(
      "{} {}: unbiased, with a variance of up to {:.3g} |x|^2: from 1 on, what `{}` holds back may grow without bound; "
      "use a contraction (unbiased=false where there is one), a larger share or more bits, or no memory",
      where, method, worst, memory->name);
}

std::string momentum_of(std::string_view where, const Method& method) {
  const MemoryEntry* memory = memory_entry(where, method.memory);
  if (memory != nullptr && memory->momentum) return method.memory;
  if (!method.by_itself) return "";
  return method_of(parse_sentence(where, method.aggregator)).momentum ? method.aggregator : "";
}

std::string held_by(std::string_view where, const Method& method) {
  if (const MemoryEntry* memory = memory_entry(where, method.memory)) return std::string(memory->name);
  if (!method.by_itself) return "";
  const MethodEntry& entry = method_of(parse_sentence(where, method.aggregator));
  return entry.holds ? std::string(entry.name) + " of " + method.codec : "";
}

std::string without_codec(std::string_view where, std::string_view method) {
  const std::string memory = read_method(where, method).memory;
  return memory.empty() ? "none" : memory + " | f32";
}

std::string canonical_method(std::string_view where, std::string_view method) {
  const Method parsed = read_method(where, method);
  std::string text = make_memory(where, parsed.memory, {})->sentence();
  const auto append = [&](const std::string& part) { text += (text.empty() ? "" : " | ") + part; };
  if (parsed.by_itself) append(parsed.aggregator);
  if (!parsed.by_itself || parsed.codec != "f32") append(parsed.codec);
  return text;
}

void require_finite(const Bucket& bucket, const Key& key) {
  if (kernels::all_finite(bucket.values)) return;
  const auto bad = std::ranges::find_if(bucket.values, [](float value) { return !std::isfinite(value); });
  const auto at = static_cast<std::size_t>(bad - bucket.values.begin());
  throw NumericError("rank " + std::to_string(key.rank) + ": gradient of " + bucket.layout->name_at(at) + " holds " +
                     std::to_string(*bad) + " at step " + std::to_string(key.step));
}

std::unique_ptr<Aggregator> make_aggregator(std::string_view where, std::string_view name, std::string_view method,
                                            std::vector<BucketPlan> buckets, const Communicator& communicator,
                                            std::shared_ptr<Workers> workers) {
  return make_aggregator(where, name, method, std::move(buckets), communicator.rank(), communicator.size(),
                         std::move(workers));
}

std::unique_ptr<Aggregator> make_aggregator(std::string_view where, std::string_view name, std::string_view method,
                                            std::vector<BucketPlan> buckets, int rank, int ranks,
                                            std::shared_ptr<Workers> workers) {
  auto [asked, parts] = check(where, name, method, std::move(buckets), std::move(workers));
  parts.memory = make_memory(where, asked.memory, {parts.buckets, ranks});
  parts.rank = rank;
  parts.ranks = ranks;
  if (!asked.by_itself) {
    const std::string chosen = parts.asked;
    return make_named(where, chosen, std::move(parts));
  }
  const Sentence sentence = parse_sentence(where, asked.aggregator);
  return method_of(sentence).make(sentence, sentence.calls.front(), std::move(parts));
}

void check_aggregator(std::string_view where, std::string_view name, std::string_view method,
                      std::span<const BucketPlan> buckets) {
  check(where, name, method, {buckets.begin(), buckets.end()}, nullptr);
}

std::unique_ptr<Aggregator> make_named(std::string_view where, std::string_view name, AggregatorParts parts) {
  if (name == "auto") return make_auto(std::move(parts));
  parts.asked = name;
  const AggregatorEntry& entry = find(where, parts);
  return entry.make(std::move(parts));
}

}  // namespace sotto
