#include <algorithm>
#include <cmath>

#include "sotto/codec/measure.h"
#include "sotto/codec/stages.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

double square_norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

bool is_coded(const Codec& codec) {
  return std::ranges::any_of(codec.traits().stages,
                             [](const StageSpec& stage) { return stage.entry->kind == StageKind::code; });
}

// One bucket of the inputs, and a message of each.
class BucketMerges {
 public:
  BucketMerges(Codec& codec, const BucketPlan& plan, std::uint16_t index,
               std::span<const std::span<const float>> inputs)
      : codec_(codec), plan_(plan), index_(index), messages_(inputs.size()), sum_(plan.range.size()) {
    std::vector<float> agreed(codec.agreed_count(plan.layout)), proposed(agreed.size());
    for (const auto& input : inputs) {
      inputs_.push_back(input.subspan(plan.range.begin, plan.range.size()));
      if (agreed.empty()) continue;
      codec.propose(bucket_of(inputs_.back()), proposed);
      for (std::size_t n = 0; n < agreed.size(); ++n) {
        agreed[n] = inputs_.size() == 1 ? proposed[n] : std::max(agreed[n], proposed[n]);
      }
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      codec.encode(bucket_of(inputs_[i]), Key{.rank = static_cast<std::uint16_t>(i)}, agreed, {&whole_, 1},
                   {&messages_[i], 1});
    }
  }

  // Each returns the seconds; `squares` grows by the squared error, `wanted` by the squared norm of the wanted sum.
  double add_each(MessageReader& opened, std::size_t count, double& squares, double& wanted) {
    return timed(count, squares, wanted, [&](Bucket& sum, float share) {
      for (std::size_t i = 0; i < count; ++i) {
        opened.open(message(i), plan_.layout, whole_);
        opened.add_to(sum, share);
      }
    });
  }
  double merge(std::span<const std::unique_ptr<MessageReader>> opened, double& squares, double& wanted) {
    return timed(opened.size(), squares, wanted, [&](Bucket& sum, float share) {
      for (std::size_t i = 0; i < opened.size(); ++i) opened[i]->open(message(i), plan_.layout, whole_);
      codec_.add_sum(opened, share, sum);
    });
  }

 private:
  // Neither propose() nor encode() changes the values.
  Bucket bucket_of(std::span<const float> input) const {
    return {{const_cast<float*>(input.data()), input.size()}, &plan_.layout, index_};
  }
  MessageView message(std::size_t i) const { return messages_[i % messages_.size()].view(); }

  template <class Add>
  double timed(std::size_t count, double& squares, double& wanted, Add add) {
    const float share = 1.0F / static_cast<float>(count);
    Bucket sum{sum_, &plan_.layout, index_};
    std::ranges::fill(sum_, 0.0F);
    const Timer timer;
    add(sum, share);
    const double seconds = timer.seconds();
    std::vector<float> mean(sum_.size());
    for (std::size_t i = 0; i < std::min(count, inputs_.size()); ++i) {
      const float times = static_cast<float>((count - i - 1) / inputs_.size() + 1) * share;
      for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += times * inputs_[i][j];
    }
    wanted += square_norm(mean);
    for (std::size_t j = 0; j < mean.size(); ++j) mean[j] -= sum_[j];
    squares += square_norm(mean);
    return seconds;
  }

  Codec& codec_;
  const BucketPlan& plan_;
  std::uint16_t index_;
  std::vector<std::span<const float>> inputs_;
  std::vector<Message> messages_;
  std::vector<float> sum_;
  Range whole_{0, plan_.range.size()};
};

}  // namespace

std::vector<MeasuredMerge> measure_merges(Codec& codec, const Layout& layout,
                                          std::span<const std::span<const float>> inputs,
                                          std::span<const std::size_t> counts, std::size_t most) {
  std::vector<MeasuredMerge> measured(counts.size());
  std::vector<double> wanted(counts.size());
  std::vector<std::unique_ptr<MessageReader>> opened;
  opened.push_back(codec.make_opened());
  const bool merges = codec.traits().merges && !is_coded(codec);
  const std::size_t largest = counts.empty() ? 0 : std::ranges::max(counts);
  while (merges && opened.size() < largest) opened.push_back(codec.make_opened());

  const auto plans = plan_buckets(layout, std::numeric_limits<std::size_t>::max(), most);
  for (std::size_t b = 0; b < plans.size(); ++b) {
    BucketMerges bucket(codec, plans[b], static_cast<std::uint16_t>(b), inputs);
    double unused = 0;
    bucket.add_each(*opened.front(), 1, unused, unused);  // warms up
    for (std::size_t c = 0; c < counts.size(); ++c) {
      MeasuredMerge& its = measured[c];
      its.each.seconds += bucket.add_each(*opened.front(), counts[c], its.each.error, wanted[c]);
      if (!merges) continue;
      if (!its.merged) its.merged.emplace();
      its.merged->seconds += bucket.merge(std::span(opened).first(counts[c]), its.merged->error, unused);
    }
  }
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const auto relative = [&](double squares) { return wanted[c] > 0 ? std::sqrt(squares / wanted[c]) : 0; };
    measured[c].each.error = relative(measured[c].each.error);
    if (measured[c].merged) measured[c].merged->error = relative(measured[c].merged->error);
  }
  return measured;
}

}  // namespace sotto
