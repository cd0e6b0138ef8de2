#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/table.h"
#include "sotto/topology/graph.h"
#include "sotto/topology/topology.h"

namespace sotto {

// What share of what it holds a rank keeps in a round, and sends to each of graph.out(rank): they add up to 1, so the
// sum over all ranks stays the same.
struct Shares {
  double kept = 1;
  std::vector<double> sent;
};

class Mixing {
 public:
  virtual ~Mixing() = default;
  virtual std::string sentence() const = 0;  // canonical, every option named
  virtual Shares shares(const Graph& graph, int rank) const = 0;
  // Why it cannot be used with this topology; empty when it can.
  virtual std::string problem(const Topology& /*topology*/) const { return ""; }
};

// A line of the table of mixings.
struct MixingEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  AnyOptions (*options)();
  std::unique_ptr<Mixing> (*make)(const AnyOptions& options);
};
const Table<MixingEntry>& mixing_table();

using MixingSpec = Spec<MixingEntry>;

// What a user says: one call, as "self_weighted(0.5)"; none of an empty text. ConfigError with a caret.
MixingSpec read_mixing(std::string_view text, std::string_view option = "mixing");

// `given` where the topology says its own shares, else `uniform`.
MixingSpec default_mixing(const Topology& topology);

// None: the default. ConfigError when it does not suit the topology.
std::unique_ptr<Mixing> make_mixing(const MixingSpec& spec, const Topology& topology);

}  // namespace sotto
