#include "sotto/data/length_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/core/random.h"

namespace sotto {
namespace {

constexpr std::size_t length_step = 4;  // lengths that differ by less are taken as the same

}  // namespace

LengthOrder::LengthOrder(std::span<const std::size_t> lengths, const OrderOptions& options) : options_(options) {
  if (options.batch == 0) throw ConfigError("the batch size must be at least 1");
  if (lengths.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError(fmt::format("{} training examples are more than can be counted (2^32)", lengths.size()));
  }
  for (const std::size_t length : lengths) {
    lengths_.push_back((length + length_step - 1) / length_step * length_step);
  }
  std::vector<std::size_t> ascending = lengths_;
  std::ranges::sort(ascending);
  const double sum = std::accumulate(ascending.begin(), ascending.end(), 0.0);
  const double room =
      sum / static_cast<double>(std::max<std::size_t>(1, ascending.size())) * static_cast<double>(options.batch);
  for (std::size_t begin = 0, i = 0; i < ascending.size(); ++i) {
    const bool last = i + 1 == ascending.size();
    if (last || static_cast<double>((i + 2 - begin) * ascending[i + 1]) > room) {
      batches_.push_back({begin, i + 1});
      begin = i + 1;
    }
  }
  if (options.batch > lengths.size() / static_cast<std::size_t>(options.ranks) || positions_per_epoch() == 0) {
    throw ConfigError(
        fmt::format("{} training examples cannot fill one global batch of {} ranks x {} examples; use a smaller batch, "
                    "fewer ranks or more data",
                    lengths.size(), options.ranks, options.batch));
  }
}

void LengthOrder::make_epoch(std::uint64_t epoch) {
  sorted_.resize(lengths_.size());
  shuffle(sorted_, options_.seed, epoch);
  std::ranges::stable_sort(sorted_, {}, [this](std::uint32_t example) { return lengths_[example]; });
  positions_.resize(positions_per_epoch());
  constexpr std::uint64_t of_positions = std::uint64_t{1} << 40;  // no epoch has this number
  shuffle(positions_, options_.seed, of_positions | epoch);
  const std::size_t surplus = batches_.size() % static_cast<std::size_t>(options_.ranks);
  left_out_ = Philox(options_.seed, Purpose::shuffle, (of_positions << 1) | epoch)
                  .below(static_cast<std::uint32_t>(surplus + 1));
  epoch_ = epoch;
}

std::span<const std::uint32_t> LengthOrder::at(std::uint64_t position) {
  const std::uint64_t epoch = position / positions_per_epoch();
  if (sorted_.empty() || epoch != epoch_) make_epoch(epoch);
  const std::size_t place = positions_[position % positions_per_epoch()];
  const Batch& batch =
      batches_[left_out_ + place * static_cast<std::size_t>(options_.ranks) + static_cast<std::size_t>(options_.rank)];
  return std::span(sorted_).subspan(batch.begin, batch.end - batch.begin);
}

}  // namespace sotto
