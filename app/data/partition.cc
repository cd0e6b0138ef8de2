#include "app/data/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sotto/core/random.h"

namespace sotto {
namespace {

struct ShardsOptions {
  std::int64_t n = 2;
  void visit(OptionVisitor& v) { v.option("n", n, "shards of each rank", {1, 1e6}); }
};

struct DirichletOptions {
  double alpha = 0.5;
  void visit(OptionVisitor& v) {
    v.option("alpha", alpha, "small: a class is on few ranks; large: all ranks have about the same mix", {1e-6, 1e6});
  }
};

// The random numbers that a dealing uses; no round of examples uses them.
constexpr std::uint64_t of_order = std::uint64_t{1} << 63, of_shards = of_order + 1, of_shares = of_order + 2;

std::vector<std::uint32_t> random_order(std::size_t count, std::uint64_t seed, std::uint64_t use) {
  std::vector<std::uint32_t> order(count);
  shuffle(order, seed, use);
  return order;
}

// All examples, class after class; within a class in random order.
std::vector<std::uint32_t> by_class(const Labels& labels, std::uint64_t seed) {
  std::vector<std::uint32_t> order = random_order(labels.classes.size(), seed, of_order);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t example) { return labels.classes[example]; });
  return order;
}

// McMahan et al., 2017. Shards differ by one example at most.
Hands deal_shards(const ShardsOptions& options, const Labels& labels, const Dealing& dealing) {
  const std::size_t examples = labels.classes.size(), each = static_cast<std::size_t>(options.n),
                    shards = static_cast<std::size_t>(dealing.ranks) * each;
  if (shards > examples) {
    throw ConfigError(fmt::format("{} training examples cannot be cut into {} shards for each of {} ranks", examples,
                                  each, dealing.ranks));
  }
  const std::vector<std::uint32_t> sorted = by_class(labels, dealing.seed);
  const std::vector<std::uint32_t> order = random_order(shards, dealing.seed, of_shards);
  Hands hands(static_cast<std::size_t>(dealing.ranks));
  for (std::size_t i = 0; i < shards; ++i) {
    const std::size_t shard = order[i];
    auto& hand = hands[i / each];
    hand.insert(hand.end(), sorted.begin() + static_cast<std::ptrdiff_t>(shard * examples / shards),
                sorted.begin() + static_cast<std::ptrdiff_t>((shard + 1) * examples / shards));
  }
  return hands;
}

// The logarithm of a gamma variate of this shape and scale 1. For small shapes the variate itself is too small for a
// double. (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.)
double log_gamma_variate(double shape, Philox& random) {
  if (shape < 1) return log_gamma_variate(shape + 1, random) + std::log(1 - random.uniform()) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), root = 1 + c * x, v = root * root * root;
    const double u = 1 - random.uniform();  // not 0
    if (root > 0 && std::log(u) < x * x / 2 + d * (1 - v + std::log(v))) return std::log(d * v);
  }
}

// Shares that are Dirichlet distributed with equal parameters.
std::vector<double> dirichlet_shares(double alpha, std::size_t count, Philox& random) {
  std::vector<double> shares(count);
  for (double& share : shares) share = log_gamma_variate(alpha, random);
  const double most = std::ranges::max(shares);
  for (double& share : shares) share = std::exp(share - most);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

// Hsu et al., 2019, in the form of Yurochkin et al., 2019: each class is divided into shares, so that every example is
// used exactly once. Like Yurochkin et al., it draws again if a rank would have nothing.
Hands deal_dirichlet(const DirichletOptions& options, const Labels& labels, const Dealing& dealing) {
  if (labels.are_numbers) {
    throw ConfigError("the labels are numbers, and this deals classes; shards(n) deals numbers, too");
  }
  constexpr int most_draws = 1000;
  const auto ranks = static_cast<std::size_t>(dealing.ranks);
  const std::vector<std::uint32_t> sorted = by_class(labels, dealing.seed);
  Philox random(dealing.seed, Purpose::shuffle, of_shares);
  for (int draw = 0; draw < most_draws; ++draw) {
    Hands hands(ranks);
    for (auto begin = sorted.begin(); begin != sorted.end();) {
      const std::uint32_t label = labels.classes[*begin];
      const auto end = std::find_if(begin, sorted.end(), [&](std::uint32_t i) { return labels.classes[i] != label; });
      const std::vector<double> shares = dirichlet_shares(options.alpha, ranks, random);
      double sum = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const auto cut = [&] { return begin + std::lround(std::min(sum, 1.0) * static_cast<double>(end - begin)); };
        const auto from = cut();
        sum += shares[rank];
        hands[rank].insert(hands[rank].end(), from, rank + 1 == ranks ? end : cut());
      }
      begin = end;
    }
    if (std::ranges::none_of(hands, [](const auto& hand) { return hand.empty(); })) return hands;
  }
  throw ConfigError(fmt::format("of {} draws none has examples for each of {} ranks; use a larger alpha or fewer ranks",
                                most_draws, ranks));
}

AnyOptions no_options() { return {}; }

constexpr std::array partitions{
    PartitionEntry{"iid", "all ranks share all examples, dealt again in each epoch", "", no_options, nullptr},
    PartitionEntry{"shards", "examples sorted by label and cut into shards, of which each rank has n",
                   "McMahan et al., AISTATS 2017", Made<deal_shards>::options, Made<deal_shards>::make},
    PartitionEntry{"dirichlet", "the shares that ranks have of a class are drawn from Dirichlet(alpha)",
                   "Hsu et al., 2019", Made<deal_dirichlet>::options, Made<deal_dirichlet>::make},
};
constexpr Table<PartitionEntry> partition_kinds("partition", partitions);

}  // namespace

const Table<PartitionEntry>& partition_table() { return partition_kinds; }

Labels labels_of(std::span<const float> labels, bool are_numbers) {
  std::vector<float> different(labels.begin(), labels.end());
  std::ranges::sort(different);
  different.erase(std::ranges::unique(different).begin(), different.end());
  Labels found;
  found.are_numbers = are_numbers;
  for (const float label : different) found.names.push_back(fmt::format("{}", label));
  for (const float label : labels) {
    found.classes.push_back(static_cast<std::uint32_t>(std::ranges::lower_bound(different, label) - different.begin()));
  }
  return found;
}

Partition::Partition(const PartitionSpec& spec, const Labels& labels, const Dealing& dealing)
    : text_(spec.source_text()),
      names_(labels.names),
      hands_(with_place(spec, [&] { return spec.entry->deal(spec.options, labels, dealing); })) {
  for (auto& hand : hands_) {
    std::ranges::sort(hand);
    auto& counts = counts_.emplace_back(names_.size());
    for (const std::uint32_t example : hand) ++counts[labels.classes[example]];
  }
}

std::vector<std::uint32_t> Partition::hand(int rank) const {
  return hands_.empty() ? std::vector<std::uint32_t>{} : hands_.at(static_cast<std::size_t>(rank));
}

std::string Partition::report(int first_rank) const {
  if (hands_.empty()) return "";
  constexpr std::size_t most_columns = 10, most_rows = 16;
  const std::size_t columns = std::min(names_.size(), most_columns), ranks = hands_.size();
  std::vector<std::size_t> all(names_.size());
  for (const auto& counts : counts_) {
    std::ranges::transform(all, counts, all.begin(), std::plus<>());
  }
  const auto total = static_cast<double>(std::accumulate(all.begin(), all.end(), std::size_t{0}));
  double distance = 0;
  std::vector<std::size_t> kinds, sizes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    kinds.push_back(names_.size() - static_cast<std::size_t>(std::ranges::count(counts_[rank], 0U)));
    sizes.push_back(hands_[rank].size());
    for (std::size_t label = 0; label < all.size(); ++label) {
      distance += std::abs(static_cast<double>(counts_[rank][label]) / static_cast<double>(sizes[rank]) -
                           static_cast<double>(all[label]) / total) /
                  2 / static_cast<double>(ranks);
    }
  }
  const auto range = [](std::span<const std::size_t> values) {
    const auto [least, most] = std::ranges::minmax(values);
    return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  };
  std::string text = fmt::format(
      "partition {}: a rank has {} examples, of {} of the {} labels; its mix is {:.2f} from the mix of all\n", text_,
      range(sizes), range(kinds), names_.size(), distance);
  const auto begin_of = [&](std::size_t column) { return column * names_.size() / columns; };
  std::vector<std::string> titles;
  for (std::size_t column = 0; column < columns; ++column) {
    const std::string &first = names_[begin_of(column)], &last = names_[begin_of(column + 1) - 1];
    titles.push_back(first == last ? first : first + ".." + last);
  }
  std::string line = fmt::format("{:>5}  {:>8}", "rank", "examples");
  for (const std::string& title : titles) line += fmt::format("  {:>7}", title);
  text += line + "\n";
  for (std::size_t rank = 0; rank < std::min(ranks, ranks > most_rows ? most_rows - 1 : most_rows); ++rank) {
    line = fmt::format("{:>5}  {:>8}", static_cast<std::size_t>(first_rank) + rank, sizes[rank]);
    for (std::size_t column = 0; column < columns; ++column) {
      const auto counts = std::span(counts_[rank]).subspan(begin_of(column), begin_of(column + 1) - begin_of(column));
      line += fmt::format("  {:>{}}", std::accumulate(counts.begin(), counts.end(), std::size_t{0}),
                          std::max<std::size_t>(7, titles[column].size()));
    }
    text += line + "\n";
  }
  if (ranks > most_rows) {
    const std::size_t shown = most_rows - 1;
    text += fmt::format("{:>5}  {} examples on each of {} more ranks\n", "..", range(std::span(sizes).subspan(shown)),
                        ranks - shown);
  }
  text.pop_back();
  return text;
}

}  // namespace sotto
