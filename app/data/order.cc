#include "app/data/order.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/random.h"

namespace sotto {
namespace {

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
  if (options.batch > examples / ranks) {
    throw ConfigError(
        fmt::format("{} training examples cannot fill one global batch of {} ranks x {} examples; use a smaller batch, "
                    "fewer ranks or more data",
                    examples, ranks, options.batch));
  }
  return examples / (ranks * options.batch);
}

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
  // Otherwise ranks with equal numbers of examples would go through them in the same order.
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

}  // namespace sotto
