#include "sotto/aggregate/hierarchical.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "sotto/aggregate/chunks.h"
#include "sotto/codec/scratch.h"
#include "sotto/comm/subgroup.h"
#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/core/table.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

constexpr std::string_view own_name = "hierarchical";

HierarchicalOptions read(const Sentence& sentence, const Call& call) {
  HierarchicalOptions options;
  read_options(sentence, call, options);
  return options;
}

// Nothing where `asked` is another aggregator.
std::optional<HierarchicalOptions> read(std::string_view where, std::string_view asked) {
  if (!asked.starts_with(own_name)) return std::nullopt;
  const Sentence sentence = parse_sentence(where, asked);
  if (sentence.calls.front().name != own_name) return std::nullopt;
  return read(sentence, sentence.calls.front());
}

// Of each bucket, the shard of place `place` in a group, as buckets of a vector of their own.
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
    inner.memory = make_memory(own_name, "", {});
    inner.codec = make_codec(own_name, "f32", parts_.workers);
    inner.rank = place_;
    inner.ranks = group_;
    inner_ = make_named(own_name, options.inner, std::move(inner));
    AggregatorParts outer = parts_;
    outer.buckets = shards_of(parts_, place_, group_, chunks_);
    shards_ = outer.buckets;
    outer.memory = make_memory(own_name, parts_.memory->sentence(), {outer.buckets, groups_});
    outer.rank = parts_.rank / group_;
    outer.ranks = groups_;
    outer_ = make_named(own_name, options.outer, std::move(outer));
    parts_.memory.reset();  // it has the size of all shards
  }

  std::string_view name() const override { return own_name; }

  std::string remark() const override {
    const std::string between = outer_->remark();
    if (between.empty() && outer_chooses_ && groups_ > 1) return "";
    return fmt::format("aggregator: hierarchical, {} of {}: {} inside, {} between them{}", count(groups_, "group"),
                       count(group_, "rank"), inner_->name(), outer_->name(),
                       between.empty() ? "" : " (" + between + ")");
  }

  void average(Bucket& bucket, const Key& key, Communicator& communicator, Phases& phases) override {
    join(communicator);
    require_finite(bucket, key);
    Timer timer;
    Bucket mean = bucket;  // beside the gradient, so that a failure leaves that as it was
    mean.values = mean_.room(bucket.values.size());
    std::ranges::copy(bucket.values, mean.values.begin());
    phases.encode += timer.lap();
    Key inside = key;
    inside.rank = static_cast<std::uint16_t>(place_);
    inner_->average(mean, inside, *ours_, phases);

    const Range own = chunk(bucket.index, place_);
    Bucket shard{mean.values.subspan(own.begin, own.size()), &shards_[bucket.index].layout, bucket.index};
    outer_->average(shard, between(key), *peers_, phases);
    timer.lap();
    gather(mean, bucket.index);
    phases.network += timer.lap();
    require_finite(mean, key);
    std::ranges::copy(mean.values, bucket.values.begin());
    phases.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    outer_->visit_state(visitor);  // whose memory is that of this rank
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

  // The ranks of this group, and those of this place in all groups.
  void join(Communicator& communicator) {
    if (joined_ == &communicator) return;
    std::vector<int> ours(static_cast<std::size_t>(group_)), peers;
    std::iota(ours.begin(), ours.end(), parts_.rank - place_);
    for (int rank = place_; rank < parts_.ranks; rank += group_) peers.push_back(rank);
    ours_ = std::make_unique<Subgroup>(communicator, std::move(ours));
    peers_ = std::make_unique<Subgroup>(communicator, std::move(peers));
    joined_ = &communicator;
  }

  // Each place draws numbers of its own: elements of all shards are counted from zero.
  Key between(Key key) const {
    Hash hash;
    hash.add("shard");
    hash.add(key.seed);
    hash.add(static_cast<std::uint64_t>(place_));
    key.seed = hash.value();
    key.rank = static_cast<std::uint16_t>(parts_.rank / group_);
    return key;
  }

  // The shards of the others, as floats.
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
  std::vector<Range> chunks_;       // of all buckets: so many of each as a group has ranks
  std::vector<BucketPlan> shards_;  // this rank's, of each bucket
  std::unique_ptr<Aggregator> inner_, outer_;
  Communicator* joined_ = nullptr;
  std::unique_ptr<Subgroup> ours_, peers_;
  Scratch<float> mean_;
  std::vector<Send> sends_;
  std::vector<Recv> recvs_;
};

// Why aggregator `name`, with this codec, cannot be the inner or outer one.
std::string refusal(std::string_view option, std::string_view name, const Codec& codec,
                    std::span<const BucketPlan> buckets) {
  if (name == "auto") return "";
  const AggregatorEntry* entry = find_entry(aggregator_table(), name);
  if (entry == nullptr || entry->canonical != nullptr) {
    std::vector<std::string_view> known{"auto"};
    for (const AggregatorEntry& each : aggregator_table()) {
      if (each.canonical == nullptr) known.push_back(each.name);
    }
    return fmt::format("{}: {}", option, unknown_name("aggregator", name, known));
  }
  const std::string reason = entry->suits(codec, buckets);
  return reason.empty() ? "" : fmt::format("{}={}: {}", option, name, reason);
}

}  // namespace

std::string hierarchical_suits(const Codec& /*codec*/, std::span<const BucketPlan> /*buckets*/) { return ""; }

std::string hierarchical_fits(std::string_view asked, const Codec& codec, std::span<const BucketPlan> buckets) {
  const HierarchicalOptions options = read(own_name, asked).value();
  std::string reason = refusal("inner", options.inner, *make_codec(own_name, "f32"), buckets);
  if (reason.empty()) reason = refusal("outer", options.outer, codec, buckets);
  return reason;
}

std::unique_ptr<Aggregator> make_hierarchical(AggregatorParts parts) {
  const HierarchicalOptions options = read(own_name, parts.asked).value();
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

std::string canonical_hierarchical(const Sentence& sentence, const Call& call) {
  return record_options(own_name, read(sentence, call));
}

std::string help_hierarchical() { return help_options(HierarchicalOptions{}); }

std::string with_group(std::string_view where, std::string_view asked, std::int64_t group) {
  auto options = read(where, asked);
  if (!options || group == 0 || options->group == group) return std::string(asked);
  if (options->group != 0) {
    throw ConfigError(
        fmt::format("{} {}: its groups are to have {} ranks elsewhere; say it once", where, asked, group));
  }
  options->group = group;
  return record_options(own_name, *options);
}

std::optional<std::int64_t> group_of(std::string_view where, std::string_view asked) {
  const auto options = read(where, asked);
  return options ? std::optional(options->group) : std::nullopt;
}

std::string dense_aggregator(std::string_view where, std::string_view asked) {
  auto options = read(where, asked);
  if (!options) return "auto";
  options->outer = "auto";
  return record_options(own_name, *options);
}

}  // namespace sotto
