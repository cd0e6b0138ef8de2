#include "app/data/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "sotto/core/random.h"

namespace sotto {
namespace {

ConfigError cannot_fill(std::size_t examples, const OrderOptions& options) {
  return ConfigError(
      fmt::format("{} training examples cannot fill one global batch of {} ranks x {} examples; use a smaller batch, "
                  "fewer ranks or more data",
                  examples, options.ranks, options.batch));
}

std::uint64_t whole_steps(std::size_t examples, const OrderOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks) {
    throw std::logic_error("ExampleOrder: rank must be in [0, ranks)");
  }
  if (options.batch == 0) throw ConfigError("the batch size must be at least 1");
  if (examples > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError(fmt::format("{} training examples are more than can be counted (2^32)", examples));
  }
  const auto ranks = static_cast<std::size_t>(options.ranks);
  // Compared by division: a huge batch must not overflow into a small product.
  if (options.batch > examples / ranks) throw cannot_fill(examples, options);
  return examples / (ranks * options.batch);
}

constexpr std::size_t length_step = 4;  // lengths are rounded up to multiples

}  // namespace

// The thread that first needs the order makes it.
ExampleOrder::ExampleOrder(std::size_t examples, const OrderOptions& options, std::vector<std::uint32_t> own)
    : options_(options),
      examples_(examples),
      epochs_(Epochs::of(whole_steps(examples, options))),
      own_(std::move(own)) {}

std::uint64_t ExampleOrder::round(std::uint64_t position, std::size_t i) const {
  return own_.empty() ? epochs_.at(position).epoch : (position * options_.batch + i) / own_.size();
}

void ExampleOrder::go_on(const ReadingStart& start, Share share) {
  options_.rank = share.rank;
  options_.ranks = share.ranks;
  std::uint64_t left = examples_;
  for (const Reading& read : start.read) {
    if (read.positions > left / read.ranks / read.batch) throw reads_too_much(start.epoch);
    left -= read.positions * read.ranks * read.batch;
  }
  skipped_ = examples_ - left;
  const std::uint64_t at_once = static_cast<std::uint64_t>(options_.ranks) * options_.batch;
  epochs_ = {whole_steps(examples_, options_), start.position, start.epoch, left / at_once};
}

void ExampleOrder::make_round(std::uint64_t round) {
  if (!order_.empty() && round == round_) return;
  order_.resize(own_.empty() ? examples_ : own_.size());
  // Distinguishes ranks: those with equal numbers of examples would go through them in the same order.
  const std::uint64_t of_rank = own_.empty() ? 0 : (static_cast<std::uint64_t>(options_.rank) + 1) << 44;
  shuffle(order_, options_.seed, of_rank | round);
  round_ = round;
}

std::span<const std::uint32_t> ExampleOrder::at(std::uint64_t position) {
  if (!own_.empty()) {
    batch_.clear();
    for (std::size_t i = 0; i < options_.batch; ++i) {
      make_round(round(position, i));
      batch_.push_back(own_[order_[(position * options_.batch + i) % own_.size()]]);
    }
    return batch_;
  }
  const Epochs::Place place = epochs_.at(position);
  make_round(place.epoch);
  const std::uint64_t batch =
      place.index * static_cast<std::uint64_t>(options_.ranks) + static_cast<std::uint64_t>(options_.rank);
  const std::uint64_t skipped = place.epoch == epochs_.epoch ? skipped_ : 0;
  return std::span(order_).subspan(skipped + batch * options_.batch, options_.batch);
}

LengthOrder::LengthOrder(std::span<const std::size_t> lengths, const OrderOptions& options) : options_(options) {
  whole_steps(lengths.size(), options);
  for (const std::size_t length : lengths) {
    lengths_.push_back((length + length_step - 1) / length_step * length_step);
  }
  make_epoch(0);
  if (positions_.empty()) throw cannot_fill(lengths.size(), options);
  all_batches_ = batches_.size();
  epochs_ = Epochs::of(positions_.size());
}

// Cuts sorted_ into batches that have about as many elements as `batch` examples of mean length.
std::vector<LengthOrder::Batch> LengthOrder::cut(std::size_t batch) const {
  const double sum = std::accumulate(lengths_.begin(), lengths_.end(), 0.0);
  const double room = sum / static_cast<double>(std::max<std::size_t>(1, lengths_.size())) * static_cast<double>(batch);
  std::vector<Batch> batches;
  for (std::size_t begin = 0, i = 0; i < sorted_.size(); ++i) {
    const bool last = i + 1 == sorted_.size();
    if (last || static_cast<double>((i + 2 - begin) * lengths_[sorted_[i + 1]]) > room) {
      batches.push_back({begin, i + 1});
      begin = i + 1;
    }
  }
  return batches;
}

// Deals the examples in sorted_ to the positions of `ranks` ranks.
void LengthOrder::deal(std::uint64_t ranks, std::size_t batch) {
  batches_ = cut(batch);
  positions_.resize(batches_.size() / ranks);
  constexpr std::uint64_t of_positions = std::uint64_t{1} << 40;  // no epoch has this number
  shuffle(positions_, options_.seed, of_positions | epoch_);
  const std::size_t surplus = batches_.size() % ranks;
  left_out_ = Philox(options_.seed, Purpose::shuffle, (of_positions << 1) | epoch_)
                  .below(static_cast<std::uint32_t>(surplus + 1));
}

std::span<const std::uint32_t> LengthOrder::examples_of(std::uint64_t batch) const {
  const Batch& found = batches_[left_out_ + batch];
  return std::span(sorted_).subspan(found.begin, found.end - found.begin);
}

// Removes the examples that others have read. REQUIRES deal() as for them before.
void LengthOrder::remove(const Reading& read) {
  if (read.positions > positions_.size()) throw reads_too_much(epoch_);
  std::vector<bool> is_read(lengths_.size());
  for (std::uint64_t i = 0; i < read.positions; ++i) {
    for (std::uint64_t rank = 0; rank < read.ranks; ++rank) {
      for (const std::uint32_t example : examples_of(positions_[i] * read.ranks + rank)) is_read[example] = true;
    }
  }
  std::erase_if(sorted_, [&](std::uint32_t example) { return is_read[example]; });
}

void LengthOrder::make_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  sorted_.resize(lengths_.size());
  shuffle(sorted_, options_.seed, epoch);
  std::ranges::stable_sort(sorted_, {}, [this](std::uint32_t example) { return lengths_[example]; });
  if (epoch == epochs_.epoch) {
    for (const Reading& read : read_) {
      deal(read.ranks, read.batch);
      remove(read);
    }
  }
  deal(static_cast<std::uint64_t>(options_.ranks), options_.batch);
}

void LengthOrder::go_on(const ReadingStart& start, Share share) {
  options_.rank = share.rank;
  options_.ranks = share.ranks;
  read_ = start.read;
  epochs_.epoch = start.epoch;
  make_epoch(start.epoch);
  epochs_ = {all_batches_ / static_cast<std::uint64_t>(share.ranks), start.position, start.epoch, positions_.size()};
}

std::span<const std::uint32_t> LengthOrder::at(std::uint64_t position) {
  const Epochs::Place place = epochs_.at(position);
  if (place.epoch != epoch_) make_epoch(place.epoch);
  return examples_of(positions_[place.index] * static_cast<std::uint64_t>(options_.ranks) +
                     static_cast<std::uint64_t>(options_.rank));
}

}  // namespace sotto
