#include "sotto/aggregate/hierarchical.h"

#include <fmt/format.h>

#include <numeric>

#include "sotto/aggregate/owners.h"
#include "sotto/codec/scratch.h"
#include "sotto/comm/subgroup.h"
#include "sotto/core/hash.h"

namespace sotto {
namespace {

constexpr std::string_view own_name = "hierarchical";

// The options of `hierarchical`; null if this is another aggregator.
const HierarchicalOptions* options_of(const AggregatorSpec& aggregator) {
  return aggregator && aggregator.entry->name == own_name ? &aggregator.options.as<HierarchicalOptions>() : nullptr;
}

// For each bucket, the shard of place `place` in a group, as buckets of a separate vector. Appends the ranges of all
// shards to `all`.
std::vector<BucketPlan> shards_of(const AggregatorParts& parts, int place, int group, std::vector<Range>& all) {
  std::vector<BucketPlan> shards;
  std::size_t at = 0;
  for (const BucketPlan& plan : parts.buckets) {
    const auto chunks = cut_chunks(plan.layout, parts.codec->contract(plan.layout), group);
    const auto index = static_cast<int>(shards.size());
    const Range own = chunks[static_cast<std::size_t>(chunk_of(place, index, group))];
    Layout layout = chunk_layout(plan.layout, own);
    const std::size_t segments = layout.segments().size();
    shards.push_back({0, segments, {at, at + own.size()}, std::move(layout)});
    at += own.size();
    all.insert(all.end(), chunks.begin(), chunks.end());
  }
  return shards;
}

class Hierarchical final : public Aggregator {
 public:
  Hierarchical(const HierarchicalOptions& options, AggregatorParts parts)
      : parts_(std::move(parts)),
        group_(static_cast<int>(options.group)),
        groups_(parts_.ranks / group_),
        place_(parts_.rank % group_),
        outer_chooses_(options.outer == "auto") {
    AggregatorParts inner = parts_;
    inner.memory_spec = {};
    inner.memory = make_memory({}, {});
    inner.codec = make_codec({}, parts_.pool);
    inner.rank = place_;
    inner.ranks = group_;
    inner_ = make_aggregator(aggregator_named(options.inner).value(), std::move(inner));
    AggregatorParts outer = parts_;
    outer.buckets = shards_of(parts_, place_, group_, chunks_);
    shards_ = outer.buckets;
    outer.memory = make_memory(parts_.memory_spec, {outer.buckets, groups_});
    outer.rank = parts_.rank / group_;
    outer.ranks = groups_;
    outer_ = make_aggregator(aggregator_named(options.outer).value(), std::move(outer));
    parts_.memory.reset();  // this memory has the size of all shards; outer_ has another one
  }

  std::string_view name() const override { return own_name; }

  std::string remark() const override {
    const std::string between = outer_->remark();
    if (between.empty() && outer_chooses_ && groups_ > 1) return "";
    return fmt::format("aggregator: hierarchical, {} of {}: {} inside, {} between them{}", count(groups_, "group"),
                       count(group_, "rank"), inner_->name(), outer_->name(),
                       between.empty() ? "" : " (" + between + ")");
  }

  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override {
    join(communicator);
    require_finite(bucket, key, step.what);
    Timer timer;
    Bucket mean = bucket;  // a copy, so that a failure leaves the gradient unchanged
    mean.values = mean_.room(bucket.values.size());
    std::ranges::copy(bucket.values, mean.values.begin());
    timings.encode += timer.lap();
    Key inside = key;
    inside.rank = static_cast<std::uint16_t>(place_);
    inner_->average(mean, inside, step, *ours_, timings);

    const Range own = chunk(bucket.index, place_);
    Bucket shard{mean.values.subspan(own.begin, own.size()), &shards_[bucket.index].layout, bucket.index};
    outer_->average(shard, between(key), step, *peers_, timings);
    timer.lap();
    gather(mean, bucket.index);
    timings.network += timer.lap();
    require_finite(mean, key, "mean");
    std::ranges::copy(mean.values, bucket.values.begin());
    timings.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    outer_->visit_state(visitor);  // with the memory of this rank's shards
    ScopedState inner(visitor, "inner");
    inner_->visit_state(inner);
  }
  void retire() override { outer_->retire(); }

 private:
  static std::string count(int number, std::string_view of) {
    return fmt::format("{} {}{}", number, of, number == 1 ? "" : "s");
  }

  Range chunk(std::size_t bucket, int place) const {
    const auto group = static_cast<std::size_t>(group_);
    const int number = chunk_of(place, static_cast<int>(bucket), group_);
    return chunks_[bucket * group + static_cast<std::size_t>(number)];
  }

  // Makes both subgroups: the ranks of this group, and the ranks of the same place in all groups.
  void join(Communicator& communicator) {
    if (joined_ == &communicator) return;
    std::vector<int> ours(static_cast<std::size_t>(group_)), peers;
    std::iota(ours.begin(), ours.end(), parts_.rank - place_);
    for (int rank = place_; rank < parts_.ranks; rank += group_) peers.push_back(rank);
    ours_ = std::make_unique<Subgroup>(communicator, std::move(ours));
    peers_ = std::make_unique<Subgroup>(communicator, std::move(peers));
    joined_ = &communicator;
  }

  // Gives each place its own random numbers. Without this all shards would draw alike, because elements of every shard
  // are counted from zero.
  Key between(Key key) const {
    Hash hash;
    hash.add("shard");
    hash.add(key.seed);
    hash.add(static_cast<std::uint64_t>(place_));
    key.seed = hash.value();
    key.rank = static_cast<std::uint16_t>(parts_.rank / group_);
    return key;
  }

  // Gathers the shards of the other ranks of the group, as floats.
  void gather(Bucket& mean, std::size_t bucket) {
    sends_.clear();
    recvs_.clear();
    const auto part = [&](int place) {
      const Range range = chunk(bucket, place);
      return std::as_writable_bytes(mean.values.subspan(range.begin, range.size()));
    };
    for (int i = 1; i < group_; ++i) {
      const int to = (place_ + i) % group_, from = (place_ + group_ - i) % group_;
      if (!part(place_).empty()) sends_.push_back({to, part(place_)});
      if (!part(from).empty()) recvs_.push_back({from, part(from)});
    }
    if (!sends_.empty() || !recvs_.empty()) ours_->exchange(sends_, recvs_);
  }

  AggregatorParts parts_;
  int group_, groups_;
  int place_;  // of this rank in its group
  bool outer_chooses_;
  std::vector<Range> chunks_;       // of all buckets: one per rank of a group for each bucket
  std::vector<BucketPlan> shards_;  // this rank's shard of each bucket
  std::unique_ptr<Aggregator> inner_, outer_;
  Communicator* joined_ = nullptr;
  std::unique_ptr<Subgroup> ours_, peers_;
  Scratch<float> mean_;
  std::vector<Send> sends_;
  std::vector<Recv> recvs_;
};

// Why the aggregator that an option names cannot be used with these parts; empty if it can.
std::string refusal(std::string_view option, std::string_view name, const AggregatorParts& parts) {
  const std::string reason = why_not(aggregator_named(name).value(), parts);
  return reason.empty() ? "" : fmt::format("{}={}: {}", option, name, reason);
}

}  // namespace

std::string HierarchicalOptions::problem() const {
  if (!aggregator_named(inner)) return "inner: " + unknown_aggregator(inner, /*simple=*/true);
  if (!aggregator_named(outer)) return "outer: " + unknown_aggregator(outer, /*simple=*/true);
  return "";
}

std::string hierarchical_suits(const HierarchicalOptions& options, const AggregatorParts& parts) {
  AggregatorParts inside = parts;
  inside.codec = make_codec({});
  inside.memory_spec = {};  // the memory is between groups
  std::string reason = refusal("inner", options.inner, inside);
  return reason.empty() ? refusal("outer", options.outer, parts) : reason;
}

std::unique_ptr<Aggregator> make_hierarchical(const HierarchicalOptions& options, AggregatorParts parts) {
  if (options.group == 0) {
    throw ConfigError(fmt::format(
        "{}: nobody says which ranks are on one host; say how many a group has, as hierarchical(group=4)", own_name));
  }
  if (parts.ranks % options.group != 0) {
    throw ConfigError(fmt::format("{}: {} ranks do not fall into groups of {}; say another size, which divides them",
                                  own_name, parts.ranks, options.group));
  }
  return std::make_unique<Hierarchical>(options, std::move(parts));
}

AggregatorSpec with_group(AggregatorSpec aggregator, std::int64_t group) {
  const HierarchicalOptions* options = options_of(aggregator);
  if (options == nullptr || group == 0 || options->group == group) return aggregator;
  if (options->group != 0) {
    fail_at(aggregator.place, fmt::format("another option gives its groups {} ranks; say it once", group));
  }
  HierarchicalOptions changed = *options;
  changed.group = group;
  aggregator.options = changed;
  return aggregator;
}

std::optional<std::int64_t> group_of(const AggregatorSpec& aggregator) {
  const HierarchicalOptions* options = options_of(aggregator);
  return options == nullptr ? std::nullopt : std::optional(options->group);
}

AggregatorSpec dense_aggregator(const AggregatorSpec& aggregator) {
  const HierarchicalOptions* options = options_of(aggregator);
  if (options == nullptr) return {};
  HierarchicalOptions dense = *options;
  dense.outer = "auto";
  return aggregator_table().choose(own_name, dense);
}

}  // namespace sotto
