#include "sotto/core/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/aggregators.h"
#include "sotto/aggregate/all_reduce.h"
#include "sotto/aggregate/auto_codec.h"
#include "sotto/aggregate/hierarchical.h"
#include "sotto/aggregate/memory/momentum.h"
#include "sotto/core/error.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

// An aggregator without options, whose only demand is that codec and buckets suit it.
template <auto Suits, auto Make>
constexpr AggregatorEntry plain(std::string_view name, std::string_view summary, std::string_view paper = "") {
  return {.name = name,
          .summary = summary,
          .paper = paper,
          .options = [] { return AnyOptions(); },
          .suits = [](const AnyOptions& /*options*/,
                      const AggregatorParts& parts) { return Suits(*parts.codec, parts.buckets); },
          .make = [](const AnyOptions& /*options*/, AggregatorParts parts) { return Make(std::move(parts)); }};
}

template <auto Suits, auto Make>
constexpr AggregatorEntry with_options(std::string_view name, std::string_view summary, std::string_view paper,
                                       const MethodTraits* method = nullptr) {
  return {.name = name,
          .summary = summary,
          .paper = paper,
          .options = Made<Make>::options,
          .suits = Made<Suits>::make,
          .make = Made<Make>::make,
          .method = method};
}

constexpr MethodTraits power_traits{
    .memory = [](const AnyOptions& /*options*/) { return std::string_view("ef"); },
    .momentum = false,
    .forms = false,
    .holds = false,
    .joins_late = true,
    .matrices = true,
    .contract =
        "biased, |C(x)-x|^2 <= |x|^2: a projection of the mean, on columns that get better from step to step; "
        "the memory keeps the rest; linear",
    .bytes =
        "4 rank (rows + columns) a matrix and 4 a value of what stays as it is, in two all-reduces; half of "
        "that after f16",
    .bytes_of = power_bytes};
constexpr MethodTraits fetch_traits{
    .memory = [](const AnyOptions& /*options*/) { return std::string_view(); },
    .momentum = true,
    .forms = true,
    .holds = true,
    .joins_late = false,
    .matrices = false,
    .contract =
        "biased: the largest elements as the sketch estimates them; the sketch, which is linear, keeps the rest",
    .bytes = "4 rows x columns of the sketch that follows it, in an all-reduce",
    .bytes_of = fetch_bytes};
constexpr MethodTraits auto_traits{.memory = auto_codec_memory,
                                   .momentum = false,
                                   .forms = false,
                                   .holds = false,
                                   .joins_late = false,
                                   .matrices = false,
                                   .contract = "depends on the choice",
                                   .bytes = "depend on the choice",
                                   .bytes_of = nullptr};

constexpr AggregatorEntry entries[] = {
    plain<all_reduce_suits, make_all_reduce>("all_reduce", "one all-reduce of a linear form: dense f32, f16, bf16"),
    plain<gather_suits, make_gather>("gather", "every message to every rank: any codec, few ranks"),
    plain<gather_held_suits, make_gather_held>("gather_held",
                                               "the same, but an element's mean is over the ranks that chose it: DeMo"),
    plain<scatter_reduce_suits, make_scatter_reduce>(
        "scatter_reduce", "each rank sums a chunk and sends its mean: any codec, many ranks"),
    plain<sparse_suits, make_sparse>(
        "sparse", "each rank sums a region and sends its largest: codecs that choose elements, many ranks"),
    plain<vote_suits, make_vote>("vote", "each rank counts the signs of a chunk and sends the majority: signs"),
    with_options<hierarchical_suits, make_hierarchical>(
        "hierarchical", "dense inside groups of ranks, such as hosts, and compressed between them: any codec", ""),
    with_options<power_suits, make_power>("power", "matrices as products of a few vectors, which are summed on the way",
                                          "PowerSGD: Vogels et al., NeurIPS 2019", &power_traits),
    with_options<fetch_suits, make_fetch>(
        "fetch", "sums of sketches, in which momentum and error are kept; a step is their largest elements",
        "FetchSGD: Rothchild et al., ICML 2020", &fetch_traits),
    with_options<auto_codec_suits, make_auto_codec>(
        auto_codec_name, "none, f16, qsgd or others, whichever is quickest on this link in the first steps", "",
        &auto_traits),
};
constexpr Table<AggregatorEntry> table("aggregator", entries);

// Whether an option of another aggregator may name it: it has no options and is not a method.
bool is_simple(const AggregatorEntry& entry) {
  return entry.method == nullptr && names_of_options(entry.options()).empty();
}

// Whether the aggregator averages by an all-reduce.
bool sums(const AggregatorSpec& aggregator, const Codec& codec) {
  if (!codec.traits().linear_type) return false;
  return !aggregator || aggregator.entry->name == "all_reduce" || aggregator.entry->name == "hierarchical";
}

}  // namespace

const Table<AggregatorEntry>& aggregator_table() { return table; }

std::optional<AggregatorSpec> aggregator_named(std::string_view name) {
  if (name == "auto") return AggregatorSpec{};
  const AggregatorEntry* entry = table.find(name);
  if (entry == nullptr || !is_simple(*entry)) return std::nullopt;
  return table.choose(name);
}

std::string unknown_aggregator(std::string_view name, bool simple) {
  std::vector<std::string_view> known;
  for (const AggregatorEntry& entry : table) {
    if (simple ? is_simple(entry) : entry.method == nullptr) known.push_back(entry.name);
  }
  known.emplace_back("auto");
  return unknown_name("aggregator", name, known);
}

std::string why_not(const AggregatorSpec& aggregator, const AggregatorParts& parts) {
  if (is_momentum_of_mean(parts.memory_spec) && !sums(aggregator, *parts.codec)) {
    return "`momentum(mean=true)` is made of what is summed on the way: f32, f16 or bf16 must follow it";
  }
  return aggregator ? aggregator.entry->suits(aggregator.options, parts) : "";
}

std::unique_ptr<Aggregator> make_aggregator(const AggregatorSpec& aggregator, AggregatorParts parts) {
  if (!aggregator) return make_auto(std::move(parts));
  return aggregator.entry->make(aggregator.options, std::move(parts));
}

void require_finite(const Bucket& bucket, const Key& key, std::string_view what) {
  if (kernels::all_finite(bucket.values)) return;
  const auto bad = std::ranges::find_if(bucket.values, [](float value) { return !std::isfinite(value); });
  const auto at = static_cast<std::size_t>(bad - bucket.values.begin());
  throw NumericError(fmt::format("rank {}: {} of {} holds {:f} at step {}", key.rank, what, bucket.layout->name_at(at),
                                 *bad, key.step));
}

}  // namespace sotto
