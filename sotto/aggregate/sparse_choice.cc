#include "sotto/aggregate/sparse_choice.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "sotto/aggregate/aggregators.h"
#include "sotto/codec/select/threshold.h"
#include "sotto/codec/stages.h"
#include "sotto/kernels/element.h"

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

std::string sparse_suits(const Codec& codec, std::span<const BucketPlan> buckets) {
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

namespace {

std::size_t aligned(std::size_t element) {
  return (element + Layout::alignment - 1) / Layout::alignment * Layout::alignment;
}

}  // namespace

void RegionCounts::add_up(std::size_t bins_used, float most, Communicator& communicator) {
  const auto counts = std::span(counts_).first(bins_used);
  communicator.all_reduce(counts);
  for (const float count : counts) {
    if (count >= 0 && count <= most) continue;
    throw WireError(fmt::format("rank {}: ranks that agree on regions have {} entries together, of {} at most",
                                communicator.rank(), count, most));
  }
}

std::uint64_t RegionCounts::borders(const Bucket& chosen, std::span<const Range> choosable, Communicator& communicator,
                                    std::span<std::uint64_t> borders) {
  const std::size_t size = chosen.values.size();
  const std::size_t width = std::max(aligned((size + bins - 1) / bins), Layout::alignment);
  counts_.fill(0);
  for (std::size_t i = 0; i < size; ++i) counts_[i / width] += chosen.values[i] != 0 ? 1.0F : 0.0F;
  for (const Range range : choosable) {
    for (std::size_t i = range.begin; i < range.end; ++i) counts_[bins] += chosen.values[i] != 0 ? 1.0F : 0.0F;
  }
  add_up(bins + 1, static_cast<float>(size) * static_cast<float>(communicator.size()), communicator);

  const auto regions = static_cast<double>(borders.size() + 1);
  const double total = std::accumulate(counts_.begin(), counts_.begin() + bins, 0.0);
  double before = 0;  // entries before bin `bin`
  std::size_t bin = 0;
  for (std::size_t j = 0; j < borders.size(); ++j) {
    const double wanted = total * static_cast<double>(j + 1) / regions;
    while (bin + 1 < bins && before + counts_[bin] < wanted) before += counts_[bin++];
    const double within = counts_[bin] > 0 ? std::clamp((wanted - before) / counts_[bin], 0.0, 1.0) : 0.0;
    const auto place = bin * width + static_cast<std::size_t>(within * static_cast<double>(width));
    borders[j] = std::min(aligned(place), size);
  }
  return static_cast<std::uint64_t>(std::ceil(counts_[bins] / communicator.size()));
}

// Finds the exponent first, and then, among the values of that exponent, the 8 bits after the leading one.
float RegionCounts::threshold(std::span<const float> values, std::span<const Range> stretches, std::uint64_t count,
                              Communicator& communicator) {
  auto left = static_cast<double>(count);
  const std::size_t exponent = digit(values, stretches, 23, 0, left, communicator);
  if (exponent == bins) return 0;
  // Beyond 2^24, rounding can make the two passes disagree. If the second one finds no bin, this takes bin 0.
  const std::size_t found = digit(values, stretches, 15, static_cast<std::uint32_t>(exponent), left, communicator);
  const std::size_t digits = found == bins ? 0 : found;
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent << 23U | digits << 15U));
}

// Looks only at the values whose bits above the 8 at `shift` are `prefix`. Returns the bin that holds the `count`-th
// largest of them, and sets `count` to its number within that bin. Returns `bins` if there are fewer values.
std::size_t RegionCounts::digit(std::span<const float> values, std::span<const Range> stretches, unsigned shift,
                                std::uint32_t prefix, double& count, Communicator& communicator) {
  counts_.fill(0);
  for (const Range range : stretches) {
    for (const float value : values.subspan(range.begin, range.size())) {
      const std::uint32_t bits = kernels::element::magnitude_bits(value);
      if (bits != 0 && bits >> shift >> 8U == prefix) counts_[bits >> shift & 0xFFU] += 1;
    }
  }
  add_up(bins, std::numeric_limits<float>::max(), communicator);
  for (std::size_t bin = bins; bin-- > 0;) {
    if (count <= counts_[bin]) return bin;
    count -= counts_[bin];
  }
  return bins;
}

}  // namespace sotto
