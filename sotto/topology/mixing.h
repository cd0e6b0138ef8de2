#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/table.h"
#include "sotto/topology/graph.h"
#include "sotto/topology/topology.h"

namespace sotto {

// How a rank divides its value in a round. `kept` and all `sent` add up to 1, so the sum over all ranks stays the same.
struct Shares {
  double kept = 1;
  std::vector<double> sent;  // the share for each rank of graph.out(rank)
};

class Mixing {
 public:
  virtual ~Mixing() = default;
  virtual std::string text() const = 0;  // canonical, every option named
  virtual Shares shares(const Graph& graph, int rank) const = 0;
  // Why the mixing cannot be used with this topology; empty when it can.
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

// Parses one call, such as "self_weighted(0.5)". An empty text gives an empty spec. ConfigError with a caret.
MixingSpec read_mixing(std::string_view text);

// `given` when the topology gives shares, else `uniform`.
MixingSpec default_mixing(const Topology& topology);

// An empty spec makes the default mixing. ConfigError when the mixing does not suit the topology.
std::unique_ptr<Mixing> make_mixing(const MixingSpec& spec, const Topology& topology);

}  // namespace sotto
