#include "sotto/data/order.h"

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
      positions_per_epoch_(whole_steps(examples, options)),
      examples_(examples),
      own_(std::move(own)) {}

std::uint64_t ExampleOrder::round(std::uint64_t position, std::size_t i) const {
  return own_.empty() ? position / positions_per_epoch_ : (position * options_.batch + i) / own_.size();
}

void ExampleOrder::make_round(std::uint64_t round) {
  if (!order_.empty() && round == round_) return;
  order_.resize(own_.empty() ? examples_ : own_.size());
  // Otherwise ranks with equal numbers of their own examples would go through them in the same order.
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
  make_round(round(position, 0));
  const std::uint64_t batch = (position % positions_per_epoch_) * static_cast<std::uint64_t>(options_.ranks) +
                              static_cast<std::uint64_t>(options_.rank);
  return std::span(order_).subspan(batch * options_.batch, options_.batch);
}

}  // namespace sotto
