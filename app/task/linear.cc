#include "app/task/linear.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "app/data/rows/rows.h"
#include "app/model/linear_model.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// The parts in which the two tasks differ. A tally begins with the sum of the losses, the number of examples, and three
// more sums. In an evaluation, the outputs of all examples of the split follow, and then their labels. A rank has zeros
// for examples of other ranks, so that tallies can be added.
struct LinearTraits {
  const Table<LinearModelEntry>& (*models)();
  std::span<const Metric> metrics;
  bool classes;  // labels are made -1 and 1
  void (*add)(float output, double label, std::span<double> sums);
  std::vector<double> (*values)(double loss, double count, std::span<const double> sums,
                                std::span<const double> outputs, std::span<const double> labels);
  double (*loss_of_guessing)(const Rows& rows);
};

constexpr std::size_t counted = 5;  // numbers in a tally before the outputs

class LinearTask final : public ModelTask<LinearModel, Rows, ExampleOrder> {
 public:
  LinearTask(const TaskSetup& setup, const LinearTraits& traits);

  std::uint64_t sample_hash(Split split) const override {
    return hash_of_some(split, 256, [](Hash& hash, const Rows& rows, std::size_t i) {
      const Row row = rows.at(i);
      hash.add(std::bit_cast<std::uint32_t>(row.label));
      for (const std::uint32_t column : row.columns) hash.add(column);
      for (const float value : row.values) hash.add(std::bit_cast<std::uint32_t>(value));
    });
  }

  double accumulate_gradient(std::uint64_t position, float scale, std::uint64_t /*random*/,
                             const SegmentCalls& calls) override {
    Timer waiting;
    batch_.clear();
    for (const std::uint32_t example : order_->at(position)) batch_.push_back(train_->at(example));
    outputs_.resize(batch_.size());
    data_seconds_ = waiting.seconds();
    const double loss = model_->accumulate_gradient(batch_, scale, calls, outputs_);
    add(trained_, loss * static_cast<double>(batch_.size()));
    return loss;
  }

  std::string data_report(int first_rank) const override { return partition_.report(first_rank); }

  // Evaluates every `ranks`-th row, beginning with row `rank`.
  Tally evaluate(Split split, Share share, const AfterBatch& after_batch) override {
    const Rows& all = data(split);
    Tally total(counted + 2 * all.size());
    std::uint64_t done = 0;
    const auto stride = static_cast<std::size_t>(share.ranks);
    for (auto next = static_cast<std::size_t>(share.rank); next < all.size();) {
      batch_.clear();
      std::size_t at = next;
      for (; next < all.size() && batch_.size() < test_batch_; next += stride) batch_.push_back(all.at(next));
      outputs_.resize(batch_.size());
      add(total, model_->evaluate(batch_, outputs_));
      for (std::size_t i = 0; i < batch_.size(); ++i, at += stride) {
        total[counted + at] = outputs_[i];
        total[counted + all.size() + at] = batch_[i].label;
      }
      if (after_batch) after_batch(done += batch_.size());
    }
    return total;
  }

  std::vector<double> values(const Tally& tally) const override {
    const auto each = std::span(tally).subspan(counted);
    return traits_.values(tally[0] / tally[1], tally[1], std::span(tally).subspan(2, 3), each.first(each.size() / 2),
                          each.subspan(each.size() / 2));
  }
  double loss_of_guessing() const override {  // the larger one: few test rows may have nearly equal labels
    return std::max(traits_.loss_of_guessing(*test_), train_ ? traits_.loss_of_guessing(*train_) : 0);
  }
  std::vector<std::string> remarks() const override {
    std::vector<std::string> all;
    if (!test_->remark.empty()) all.push_back(test_->remark);
    const auto& labels = test_->labels;
    if (traits_.classes && std::ranges::adjacent_find(labels, std::not_equal_to<>()) == labels.end()) {
      all.emplace_back("all test rows have the same label: of the metrics, loss and accuracy alone mean something");
    }
    return all;
  }

 private:
  // The sum of the losses of `batch_`; adds it to the tally. Outputs are written to outputs_.

  void add(Tally& tally, double losses) const {
    tally[0] += losses;
    tally[1] += static_cast<double>(batch_.size());
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      traits_.add(outputs_[i], batch_[i].label - origin_, std::span(tally).subspan(2, counted - 2));
    }
  }

  LinearTraits traits_;
  double origin_ = 0;  // subtracted from labels in sums, so that labels far from zero lose no precision
  Partition partition_;
  std::size_t test_batch_;
  std::vector<Row> batch_;
  std::vector<float> outputs_;
};

std::string two_wanted(const Rows& rows) {
  const std::string column = rows.label_at.empty() ? "" : fmt::format("the label is {}; ", rows.label_at);
  return column + "two classes are wanted; for labels that are any numbers there is the task regress-rows";
}

// Makes the two labels of the data -1 and 1.
void make_classes(Rows& rows) {
  std::vector<Rows::SeenLabel> seen = rows.seen_labels;
  if (seen.size() == 1) {
    throw FileError(fmt::format("{}: all rows have the label {}; {}", seen[0].place, seen[0].label, two_wanted(rows)));
  }
  std::ranges::sort(seen, std::greater(), &Rows::SeenLabel::rows);
  if (seen.size() > 2) {
    throw FileError(fmt::format("{}: label {}, and other rows have {} and {}; {}", seen[2].place, seen[2].label,
                                seen[0].label, seen[1].label, two_wanted(rows)));
  }
  const float most = std::max(seen[0].label, seen[1].label);
  for (float& label : rows.labels) label = label == most ? 1.0F : -1.0F;
}

LinearTask::LinearTask(const TaskSetup& setup, const LinearTraits& traits)
    : ModelTask{setup.batch > 0 ? open_rows(setup.data, Split::train) : nullptr, open_rows(setup.data, Split::test),
                counted, traits.metrics},
      traits_(traits),
      test_batch_(std::max<std::size_t>(1, setup.test_batch)) {
  for (Rows* part : {test_.get(), train_.get()}) {
    if (part != nullptr && traits_.classes) make_classes(*part);
  }
  if (!setup.meaning.empty()) test_->fit(setup.meaning, named("data-dir", setup.data.data_dir));
  if (!traits_.classes && test_->size() > 0) origin_ = test_->labels.front();
  const LinearModelSpec spec = setup.model.in(traits_.models());
  model_ = spec.entry->make(spec.options, spec.source_text(), test_->features);
  model_->compute_in(setup.precision);
  if (!train_) return;
  if (deals(setup.partition)) {
    const Labels labels = labels_of(train_->labels, !traits_.classes);
    partition_ = {setup.partition, labels, {setup.share.ranks, setup.seed}};
  }
  order_.emplace(train_->size(), OrderOptions{setup.seed, setup.share.rank, setup.share.ranks, setup.batch},
                 partition_.hand(setup.share.rank));
}

// The three sums are the numbers of true positives, of false positives, and of positive examples.
void add_found(float output, double label, std::span<double> sums) {
  const bool found = output > 0;
  sums[0] += found && label > 0;
  sums[1] += found && label < 0;
  sums[2] += label > 0;
}

// Computed from ranks (Mann and Whitney, 1947): equal outputs share their ranks, so they count half.
double area_under_curve(std::span<const double> outputs, std::span<const double> labels) {
  if (outputs.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<std::size_t> order(outputs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // NaN is sorted to one end, since it has no order.
  const auto key = [&](std::size_t i) { return std::isnan(outputs[i]) ? -HUGE_VAL : outputs[i]; };
  std::ranges::sort(order, {}, key);
  double positives = 0, rank_sum = 0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double here = 0;
    for (; end < order.size() && key(order[end]) == key(order[begin]); ++end) here += labels[order[end]] > 0;
    positives += here;
    rank_sum += here * static_cast<double>(begin + end + 1) / 2;
  }
  const double negatives = static_cast<double>(order.size()) - positives;
  if (positives == 0 || negatives == 0) return 0.5;
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

std::vector<double> two_class_values(double loss, double count, std::span<const double> sums,
                                     std::span<const double> outputs, std::span<const double> labels) {
  const double right = sums[0], wrong = sums[1], positives = sums[2], missed = positives - right;
  const auto share = [](double part, double whole) { return whole == 0 ? 0 : part / whole; };
  return {loss,
          (count - wrong - missed) / count,
          area_under_curve(outputs, labels),
          share(right, right + wrong),
          share(right, positives),
          share(2 * right, 2 * right + wrong + missed)};
}

// The sums are the labels and their squares.
void add_label(float /*output*/, double label, std::span<double> sums) {
  sums[0] += label;
  sums[1] += label * label;
}

std::vector<double> value_values(double loss, double count, std::span<const double> sums, std::span<const double>,
                                 std::span<const double>) {
  return {loss, r2_of(loss * count, count, sums[0], sums[1])};
}

double variance_of(const Rows& rows) {
  double sums[2]{};
  for (const float label : rows.labels) add_label(0, double{label} - rows.labels.front(), sums);
  const auto count = static_cast<double>(rows.size());
  return squares_around_mean(count, sums[0], sums[1]) / count;
}

double loss_of_even_odds(const Rows& /*rows*/) { return std::log(2.0); }

constexpr LinearTraits two_class_traits{two_class_model_table, two_class_metrics, true, add_found,
                                        two_class_values,      loss_of_even_odds};
constexpr LinearTraits value_traits{value_model_table, value_metrics, false, add_label, value_values, variance_of};

}  // namespace

std::unique_ptr<Task> make_two_class(const TaskSetup& setup) {
  return std::make_unique<LinearTask>(setup, two_class_traits);
}

std::unique_ptr<Task> make_value(const TaskSetup& setup) { return std::make_unique<LinearTask>(setup, value_traits); }

}  // namespace sotto
