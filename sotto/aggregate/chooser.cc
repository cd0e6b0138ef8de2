#include "sotto/aggregate/chooser.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/codec/select/threshold.h"
#include "sotto/codec/stages.h"

namespace sotto {
namespace {

// A codec taken apart: its selection, and its other stages.
struct Taken {
  std::string refusal;
  StageSpecs selection, rest;
  Selection made;
};

Taken take_apart(const Codec& codec) {
  Taken taken;
  for (const StageSpec& stage : codec.traits().stages) {
    if (stage.entry->kind == StageKind::transform) {
      taken.refusal = fmt::format("sparse adds up elements, and `{}` makes others of them", stage.entry->name);
      return taken;
    }
    if (stage.entry->kind == StageKind::select) {
      taken.selection = {stage};
      taken.made = Selection(std::get<std::unique_ptr<Select>>(stage.entry->make(stage.options)));
    } else {
      taken.rest.push_back(stage);
    }
  }
  if (!taken.made) taken.refusal = "`" + codec.traits().text + "` chooses nothing: all elements go";
  return taken;
}

// Selects everything that is not zero.
StageSpec what_is_there() {
  ThresholdOptions options;
  options.dense = "0";
  return stage_table().choose("threshold", options);
}

constexpr const char* instead = "; use gather or scatter_reduce";

}  // namespace

std::string Chooser::refusal(const Codec& codec, std::span<const BucketPlan> buckets) {
  const Taken taken = take_apart(codec);
  if (!taken.refusal.empty()) return taken.refusal + instead;
  if (taken.made->traits().shared)
    return "all ranks choose the same elements, so there is nothing to choose again" + std::string(instead);
  for (const BucketPlan& plan : buckets) {
    if (codec.contract(plan.layout).kind != Contract::Kind::unbiased) continue;
    return "`" + codec.traits().text + "` is unbiased, and would not be once owners chose again" + instead;
  }
  return "";
}

Chooser::Chooser(const Codec& codec, const std::shared_ptr<ThreadPool>& pool) {
  Taken taken = take_apart(codec);
  selection_ = std::move(taken.made);
  selecting_ = make_codec(taken.selection, pool);
  opened_ = selecting_->make_opened();
  taken.rest.insert(taken.rest.begin(), what_is_there());
  carrier_ = make_codec(taken.rest, pool);
}

std::vector<Range> Chooser::choosable(const Layout& layout) const {
  std::vector<Range> ranges;
  for (const Segment& segment : layout.segments()) {
    if (segment.numel() > 0 && !selection_.is_dense(segment)) ranges.push_back(segment.range());
  }
  return ranges;
}

void Chooser::choose(const Bucket& bucket, const Key& key, Bucket& chosen) {
  const Range whole{0, bucket.values.size()};
  selecting_->encode(bucket, key, {}, {&whole, 1}, {&message_, 1});
  std::ranges::fill(chosen.values, 0.0F);
  opened_->open(message_.view(), *bucket.layout, whole);
  opened_->add_to(chosen, 1);
}

}  // namespace sotto
