#include "sotto/aggregate/chooser.h"

#include <algorithm>
#include <optional>

#include "sotto/codec/stages.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

// The stages of a codec's sentence: its selection, and those behind it.
struct Taken {
  std::string refusal;
  std::string selection;
  std::string behind;  // " | qsgd(..)"
  Selection made;
};

Taken take_apart(const Codec& codec) {
  Taken taken;
  const Sentence sentence = parse_sentence("codec", codec.sentence());
  for (const Call& call : sentence.calls) {
    const StageEntry& entry = require_entry(stage_table(), "codec stage", sentence, call);
    if (entry.kind == StageKind::transform) {
      taken.refusal = "sparse adds up elements, and `" + call.name + "` makes others of them";
      return taken;
    }
    if (entry.kind == StageKind::select) {
      taken.selection = text_of(sentence, call);
      taken.made = Selection(std::get<std::unique_ptr<Select>>(entry.make(sentence, call)));
    } else {
      taken.behind += " | " + std::string(text_of(sentence, call));
    }
  }
  if (!taken.made) taken.refusal = "`" + codec.sentence() + "` chooses nothing: all elements go";
  return taken;
}

constexpr const char* instead = "; use gather or scatter_reduce";

}  // namespace

std::string Chooser::refusal(const Codec& codec, std::span<const BucketPlan> buckets) {
  const Taken taken = take_apart(codec);
  if (!taken.refusal.empty()) return taken.refusal + instead;
  if (taken.made->known())
    return "all ranks choose the same elements, so there is nothing to choose again" + std::string(instead);
  for (const BucketPlan& plan : buckets) {
    if (codec.contract(plan.layout).kind != Contract::Kind::unbiased) continue;
    return "`" + codec.sentence() + "` is unbiased, and would not be once owners chose again" + instead;
  }
  return "";
}

Chooser::Chooser(const Codec& codec, const std::shared_ptr<Workers>& workers) {
  Taken taken = take_apart(codec);
  selection_ = std::move(taken.made);
  selecting_ = make_codec("sparse", taken.selection, workers);
  carrier_ = make_codec("sparse", "threshold(0, dense=0)" + taken.behind, workers);
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
  selecting_->add_decoded(message_.view(), whole, 1, chosen);
}

void Chooser::clear_chosen(Bucket& out) const {
  selecting_->clear_chosen(message_.view(), {0, out.values.size()}, out);
}

}  // namespace sotto
