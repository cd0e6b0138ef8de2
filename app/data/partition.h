#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/table.h"

namespace sotto {

// How the training examples are dealt to the ranks. `iid` gives all examples to all ranks; the others give ranks
// different data, as in federated learning.

// The labels of the training examples.
struct Labels {
  std::vector<std::uint32_t> classes;  // of each example, an index in `names`
  std::vector<std::string> names;      // in ascending order
  bool are_numbers = false;            // labels are values, not classes: their order has a meaning
};
// The names are the different labels in ascending order.
Labels labels_of(std::span<const float> labels, bool are_numbers);

struct Dealing {
  int ranks = 1;
  std::uint64_t seed = 1;
};

// The examples of each rank, ascending. Every example belongs to exactly one rank.
using Hands = std::vector<std::vector<std::uint32_t>>;

// A line of the table of partitions.
struct PartitionEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  AnyOptions (*options)();
  Hands (*deal)(const AnyOptions& options, const Labels& labels, const Dealing& dealing);  // null: all ranks have all
};
using PartitionSpec = Spec<PartitionEntry>;
const Table<PartitionEntry>& partition_table();
// Whether ranks get their own examples, so that a Partition must be made.
inline bool deals(const PartitionSpec& spec) { return spec && spec.entry->deal != nullptr; }

// The examples of each rank: a pure function of the constructor's arguments.
class Partition {
 public:
  Partition() = default;  // nothing is dealt: all ranks have all
  // ConfigError, with its place in the user's text, when these examples cannot be dealt so. REQUIRES deals(spec).
  Partition(const PartitionSpec& spec, const Labels& labels, const Dealing& dealing);
  // Empty if nothing is dealt.
  std::vector<std::uint32_t> hand(int rank) const;
  // A table of the number of examples of each rank and class, with neighbours merged if there are many; empty if
  // nothing is dealt. The ranks are numbered from `first_rank`.
  std::string report(int first_rank) const;

 private:
  std::string text_;
  std::vector<std::string> names_;
  Hands hands_;
  std::vector<std::vector<std::size_t>> counts_;  // of each rank and class
};

}  // namespace sotto
