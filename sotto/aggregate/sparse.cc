#include "sotto/aggregate/aggregators.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "sotto/aggregate/owners.h"
#include "sotto/aggregate/sparse_choice.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

constexpr std::size_t most = 2;  // an owner keeps at most this many times its even share of the sums

// The agreement of the ranks about a bucket: the same on all ranks, and part of the state.
struct Agreed {
  std::uint64_t left = 0;  // exchanges until they agree again; 0: in the next one
  std::uint64_t kept = 0;  // number of sums wanted, from all owners together
  float threshold = 0;     // magnitude that these sums reach
  std::vector<std::uint64_t> borders;
};

// An agreement, and what follows from it.
struct Regions {
  Agreed agreed;
  std::vector<Range> choosable;  // in the bucket
  Cut cut;
  std::vector<Range> own;  // choosable stretches of this rank's region
};

// The part of a rank's message that the owners kept.
class SentAndKept final : public Sent {
 public:
  SentAndKept(std::span<const float> used, std::span<const float> dropped, Chooser& chooser, std::span<float> room)
      : used_(used), dropped_(dropped), chooser_(chooser), room_(room) {}
  void add_to(Bucket& out, float scale) override { kernels::axpy(scale, used_, out.values); }
  void clear_chosen(Bucket& out) override {
    std::ranges::fill(room_, 1.0F);
    Bucket others = out;
    others.values = room_;
    chooser_.clear_chosen(others);
    for (std::size_t i = 0; i < room_.size(); ++i) out.values[i] = room_[i] + dropped_[i] > 0 ? out.values[i] : 0;
  }

 private:
  std::span<const float> used_, dropped_;  // dropped_: 0 at the elements that owners sent, 1 elsewhere
  Chooser& chooser_;
  std::span<float> room_;
};

class Sparse final : public Aggregator {
 public:
  explicit Sparse(AggregatorParts parts)
      : parts_(std::move(parts)),
        chooser_(*parts_.codec, parts_.pool),
        owners_(parts_, chooser_.carrier(), 1.0F / static_cast<float>(parts_.ranks)) {
    for (const BucketPlan& plan : parts_.buckets) {
      Regions& regions = regions_.emplace_back();
      regions.choosable = chooser_.choosable(plan.layout);
      regions.agreed.borders.resize(static_cast<std::size_t>(parts_.ranks) - 1);
    }
  }

  std::string_view name() const override { return "sparse"; }

  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override {
    Regions& regions = regions_.at(bucket.index);
    Timer timer;
    Bucket prepared = parts_.memory->prepare(bucket, step, {});
    Bucket chosen = bucket;
    chosen.values = chosen_.room(bucket.values.size());
    chooser_.choose(prepared, key, chosen);
    timings.encode += timer.lap();
    const bool agrees = regions.agreed.left == 0;
    const bool holds = agrees && agree(regions, chosen, communicator);
    timings.network += timer.lap();

    owners_.exchange(chosen, key, regions.cut, communicator, timings);
    timer.lap();
    Bucket mean = owners_.sum(bucket, key, regions.cut, communicator);
    timings.decode += timer.lap();
    Agreed& agreed = regions.agreed;
    if (agrees) agreed.threshold = counts_.threshold(mean.values, regions.own, agreed.kept, communicator);
    timings.network += timer.lap();
    keep_largest(regions, mean.values);
    timings.encode += timer.lap();
    owners_.spread(mean, bucket, key, regions.cut, communicator, timings);
    timer.lap();
    settle(regions, prepared, chosen, mean);
    agreed.left = holds ? sparse_period - 1 : agrees ? 0 : agreed.left - 1;
    timings.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    parts_.memory->visit_state(visitor);
    ScopedState own(visitor, "sparse");
    chooser_.visit_state(own);
    owners_.codec().visit_state(own);
    for (std::size_t b = 0; b < regions_.size(); ++b) visit_agreed(own, b);
    ScopedState mean(own, "mean");
    owners_.mean_codec().visit_state(mean);
  }

 private:
  // Returns whether the agreement can hold for some time. It cannot if no rank chose anything, as when the gradient is
  // zero.
  bool agree(Regions& regions, const Bucket& chosen, Communicator& communicator) {
    Agreed& agreed = regions.agreed;
    const std::uint64_t count = counts_.borders(chosen, regions.choosable, communicator, agreed.borders);
    agreed.kept = std::max<std::uint64_t>(1, count);
    cut(regions, chosen.index);
    return count > 0 || regions.choosable.empty();
  }

  // Derives everything else from the borders.
  void cut(Regions& regions, std::size_t bucket) {
    const Layout& layout = parts_.buckets[bucket].layout;
    std::vector<Range> chunks;
    std::size_t begin = 0;
    for (const std::uint64_t border : regions.agreed.borders) {
      chunks.push_back({begin, border});
      begin = border;
    }
    chunks.push_back({begin, layout.size()});
    if (chunks == regions.cut.chunks) return;
    regions.cut = owners_.cut(layout, static_cast<int>(bucket), std::move(chunks));
    const Range own = regions.cut.chunk();
    regions.own.clear();
    for (const Range range : regions.choosable) {
      const Range part{std::max(range.begin, own.begin), std::min(range.end, own.end)};
      if (part.begin < part.end) regions.own.push_back({part.begin - own.begin, part.end - own.begin});
    }
  }

  // Sets sums that do not reach the threshold to zero. If more sums are left than an owner may send, keeps the largest;
  // of equal sums, the first. Does not touch elements that every rank sends in every step.
  void keep_largest(const Regions& regions, std::span<float> values) {
    const std::uint64_t ranks = static_cast<std::uint64_t>(parts_.ranks);
    const std::size_t room = most * ((regions.agreed.kept + ranks - 1) / ranks);
    const auto found = found_.room(values.size());
    std::uint32_t least = std::max(kernels::element::magnitude_bits(regions.agreed.threshold), 1U);
    std::size_t count = 0;
    for (const Range range : regions.own) {
      for (const float value : values.subspan(range.begin, range.size())) {
        found[count] = kernels::element::magnitude_bits(value);
        count += found[count] >= least ? 1 : 0;
      }
    }
    std::size_t alike = count;  // how many of the smallest stay
    if (count > room) {
      const auto smallest = found.begin() + static_cast<std::ptrdiff_t>(room - 1);
      std::nth_element(found.begin(), smallest, found.begin() + static_cast<std::ptrdiff_t>(count), std::greater<>());
      least = *smallest;
      alike =
          room - static_cast<std::size_t>(std::count_if(found.begin(), smallest, [&](auto v) { return v > least; }));
    }
    for (const Range range : regions.own) {
      for (float& value : values.subspan(range.begin, range.size())) {
        const std::uint32_t bits = kernels::element::magnitude_bits(value);
        if (bits > least) continue;
        if (bits == least && alike > 0) {
          --alike;
        } else {
          value = 0;
        }
      }
    }
  }

  // `mean` holds the sums that this owner sent.
  void settle(Regions& regions, Bucket& prepared, Bucket& chosen, Bucket& mean) {
    Bucket dropped = chosen;
    dropped.values = dropped_.room(chosen.values.size());
    std::ranges::fill(dropped.values, 1.0F);
    owners_.clear_spread(dropped, regions.cut);
    follow(regions, dropped.values);
    if (!parts_.memory->remembers()) return;

    std::ranges::fill(chosen.values, 0.0F);
    owners_.sent(*chosen.layout, regions.cut).add_to(chosen, 1);
    for (std::size_t i = 0; i < chosen.values.size(); ++i)
      chosen.values[i] = dropped.values[i] > 0 ? 0 : chosen.values[i];
    owners_.subtract_sent(mean, regions.cut);
    const Range own = regions.cut.chunk();
    Bucket owed = chosen;
    owed.values = owners_.sum_buffer(chosen.values.size());  // the room in which `mean` stands
    std::ranges::fill(owed.values.first(own.begin), 0.0F);
    std::ranges::fill(owed.values.subspan(own.end), 0.0F);
    kernels::scale(static_cast<float>(parts_.ranks), mean.values);
    parts_.memory->hold(owed);
    SentAndKept sent(chosen.values, dropped.values, chooser_, owed.values);
    parts_.memory->settle(prepared, sent);
  }

  // Adjusts the threshold to the number of sums that were kept, which all ranks see.
  static void follow(Regions& regions, std::span<const float> dropped) {
    std::size_t kept = 0;
    for (const Range range : regions.choosable) {
      for (const float value : dropped.subspan(range.begin, range.size())) kept += value > 0 ? 0 : 1;
    }
    const double ratio = static_cast<double>(kept) / static_cast<double>(regions.agreed.kept);
    const double follows = regions.agreed.threshold * std::sqrt(std::sqrt(std::max(ratio, 1.0 / 16)));
    regions.agreed.threshold = static_cast<float>(std::min(follows, double{std::numeric_limits<float>::max()}));
  }

  void visit_agreed(StateVisitor& visitor, std::size_t bucket) {
    Agreed& agreed = regions_[bucket].agreed;
    ScopedState scope(visitor, std::to_string(bucket));
    std::vector<float> threshold{agreed.threshold};
    scope.visit("left", agreed.left);
    scope.visit("kept", agreed.kept);
    scope.visit("threshold", threshold);
    for (std::size_t j = 0; j < agreed.borders.size(); ++j)
      scope.visit("border/" + std::to_string(j), agreed.borders[j]);
    agreed.threshold = threshold.at(0);
    const std::size_t size = parts_.buckets[bucket].layout.size();
    if (agreed.left >= sparse_period || !(agreed.threshold >= 0) || !std::isfinite(agreed.threshold) ||
        (agreed.left > 0 && agreed.kept == 0) || agreed.kept > std::max<std::size_t>(1, size) ||
        !std::ranges::is_sorted(agreed.borders) || (!agreed.borders.empty() && agreed.borders.back() > size)) {
      throw FileError("a checkpoint with sparse/" + std::to_string(bucket) +
                      ": no such regions can have been agreed on");
    }
    if (agreed.left > 0) cut(regions_[bucket], bucket);
  }

  AggregatorParts parts_;
  Chooser chooser_;
  Owners owners_;
  RegionCounts counts_;
  std::vector<Regions> regions_;  // by bucket
  Scratch<float> chosen_, dropped_;
  Scratch<std::uint32_t> found_;
};

}  // namespace

std::unique_ptr<Aggregator> make_sparse(AggregatorParts parts) { return std::make_unique<Sparse>(std::move(parts)); }

// A rank sends in two rounds what it chose outside its own region, and from time to time the numbers of the agreement.
double sparse_bytes(const AggregatorParts& parts, std::span<const double> bytes) {
  const double others = parts.ranks - 1;
  double sent = 0;
  for (const double message : bytes) {
    sent += 2 * (others * sizeof(Header) + (message - sizeof(Header)) * others / parts.ranks);
    sent += others * 4 * (3 * RegionCounts::bins + 1) / static_cast<double>(sparse_period);
  }
  return sent;
}

}  // namespace sotto
