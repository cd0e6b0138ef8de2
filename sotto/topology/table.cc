#include "sotto/topology/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "sotto/core/text.h"
#include "sotto/topology/given_graphs.h"

namespace sotto {
namespace {

// The graph of each offset: `make` is shift() or pairs().
std::vector<Graph> graphs_of(Graph (*make)(int ranks, int offset), int ranks, const std::vector<int>& offsets) {
  std::vector<Graph> graphs;
  graphs.reserve(offsets.size());
  for (const int offset : offsets) graphs.push_back(make(ranks, offset));
  return graphs;
}

std::string unless_even(int ranks) {
  if (ranks % 2 == 0 || ranks == 1) return "";
  return fmt::format("it consists of pairs, and {} ranks are no even number; `exponential` is for any number", ranks);
}

// Each struct below is a kind of topology: its options; problem(), why it does not exist for this number of ranks; and
// cycle(), the elementary graphs. This is the base of those with an option `peers`.
struct Peers {
  std::int64_t peers = 0;
  void visit(OptionVisitor& v) {
    v.option("peers", peers, "peers of a rank per round, rotating; 0: all", Bounds{0, 1e6});
  }
  std::string problem(int /*ranks*/) const { return ""; }
};
struct OnePeer : Peers {
  OnePeer() : Peers{1} {}
};

struct DirectedExponential : OnePeer {
  static constexpr std::string_view name = "directed_exponential";
  std::vector<Graph> cycle(int ranks) const { return graphs_of(shift, ranks, exponential_offsets(ranks)); }
};
struct BipartiteExponential : OnePeer {
  static constexpr std::string_view name = "bipartite_exponential";
  std::string problem(int ranks) const { return unless_even(ranks); }
  std::vector<Graph> cycle(int ranks) const { return graphs_of(pairs, ranks, bipartite_offsets(ranks)); }
};
struct DirectedLinear : OnePeer {
  static constexpr std::string_view name = "directed_linear";
  std::vector<Graph> cycle(int ranks) const { return graphs_of(shift, ranks, linear_offsets(ranks)); }
};
struct BipartiteLinear : OnePeer {
  static constexpr std::string_view name = "bipartite_linear";
  std::string problem(int ranks) const { return unless_even(ranks); }
  std::vector<Graph> cycle(int ranks) const { return graphs_of(pairs, ranks, linear_offsets(ranks)); }
};
struct Ring : Peers {
  static constexpr std::string_view name = "ring";
  std::vector<Graph> cycle(int ranks) const { return graphs_of(shift, ranks, distinct_offsets(ranks, {1, -1})); }
};
struct Exponential : OnePeer {
  static constexpr std::string_view name = "exponential";
  std::string problem(int /*ranks*/) const {
    return peers == 0 ? "its peers are j (peers + 1)^i ranks ahead: set peers to at least 1" : "";
  }
  std::vector<Graph> cycle(int ranks) const {
    return graphs_of(shift, ranks, peer_offsets(ranks, static_cast<int>(std::min<std::int64_t>(peers, ranks))));
  }
};
struct StaticExponential : Peers {
  static constexpr std::string_view name = "static_exponential";
  std::vector<Graph> cycle(int ranks) const { return graphs_of(shift, ranks, peer_offsets(ranks, 1)); }
};
struct Complete : Peers {
  static constexpr std::string_view name = "complete";
  std::vector<Graph> cycle(int ranks) const {
    std::vector<Graph> graphs;
    for (int offset = 1; offset < ranks; ++offset) graphs.push_back(shift(ranks, offset));
    return graphs;
  }
};
struct Star {
  static constexpr std::string_view name = "star";
  static constexpr std::int64_t peers = 0;
  void visit(OptionVisitor&) {}
  std::string problem(int /*ranks*/) const { return ""; }
  std::vector<Graph> cycle(int ranks) const { return {star(ranks)}; }
};
struct Torus : Peers {
  static constexpr std::string_view name = "torus";
  std::int64_t rows = 0;
  void visit(OptionVisitor& v) {
    v.option("rows", rows, "rows of the grid, a divisor of the ranks; 0: the largest that is not above the columns",
             Bounds{0, 1e6});
    Peers::visit(v);
  }
  std::string problem(int ranks) const {
    return rows == 0 || ranks % rows == 0 ? "" : fmt::format("{} ranks are no {} whole rows", ranks, rows);
  }
  std::vector<Graph> cycle(int ranks) const {
    auto found = static_cast<int>(rows);
    for (int r = 1; rows == 0 && r * r <= ranks; ++r) found = ranks % r == 0 ? r : found;
    return torus(ranks, found);
  }
};
struct Hypercube : Peers {
  static constexpr std::string_view name = "hypercube";
  std::string problem(int ranks) const {
    return std::has_single_bit(static_cast<unsigned>(ranks)) ? "" : fmt::format("{} ranks are no power of two", ranks);
  }
  std::vector<Graph> cycle(int ranks) const { return hypercube(ranks); }
};
struct RandomRegular {
  static constexpr std::string_view name = "random_regular";
  static constexpr std::int64_t peers = 0;
  std::int64_t k = 3;
  std::int64_t seed = 1;
  void visit(OptionVisitor& v) {
    v.option("k", k, "neighbours of a rank", Bounds{1, 64});
    v.option("seed", seed, "seed of the graph, which never changes", Bounds{0, 4294967295.0});
  }
  std::string problem(int ranks) const {
    if (ranks == 1) return "";
    if (k == 1 && ranks > 2) return "fixed pairs never reach other ranks: k must be at least 2";
    if (k >= ranks) return fmt::format("k must be below the number of ranks, {}", ranks);
    return k * ranks % 2 == 0
               ? ""
               : fmt::format("k times ranks must be even: no such graph exists with k={} for {} ranks", k, ranks);
  }
  std::vector<Graph> cycle(int ranks) const {
    return {ranks == 1 ? Graph(1) : random_regular(ranks, static_cast<int>(k), static_cast<std::uint64_t>(seed))};
  }
};
struct Hosts : OnePeer {
  static constexpr std::string_view name = "hosts";
  std::int64_t size = 0;
  void visit(OptionVisitor& v) {
    v.option("size", size, "ranks of a host, with consecutive numbers; 0: as the launcher says", Bounds{0, 1e6});
    OnePeer::visit(v);
  }
  std::string problem(int ranks) const {
    if (size == 0) return "say how many ranks a host has, as in hosts(4)";
    return ranks % size == 0 ? "" : fmt::format("{} ranks are no whole hosts of {}", ranks, size);
  }
  std::vector<Graph> cycle(int ranks) const { return groups(ranks, static_cast<int>(size)); }
};

template <class Kind>
Topology make(const AnyOptions& options, int ranks) {
  const auto& kind = options.as<Kind>();
  if (const std::string problem = kind.problem(ranks); !problem.empty()) throw ConfigError(problem);
  std::vector<Graph> cycle = kind.cycle(ranks);
  if (cycle.empty()) cycle.emplace_back(ranks);  // there is only one rank
  return {record_options(Kind::name, options), std::move(cycle), static_cast<std::size_t>(kind.peers)};
}

struct Given {
  std::string sends_to;
  void visit(OptionVisitor& v) {
    v.option("sends_to", sends_to,
             "the receivers of each rank, rank by rank: `1 2; 0; 0`, or with shares `1:0.25 2:0.25; 0:0.5; 0:0.5`; "
             "several rounds, which take turns, are separated by ` / `");
  }
};

template <class Kind>
constexpr TopologyEntry entry(int id, std::string_view summary, std::string_view paper) {
  return {Kind::name, id, summary, paper, [] { return AnyOptions(Kind{}); }, make<Kind>};
}

constexpr std::string_view sgp = "Assran et al., ICML 2019";
constexpr std::array entries{
    entry<DirectedExponential>(0, "ranks 1, 2, 4 .. ahead and back, in turns", sgp),
    entry<BipartiteExponential>(1, "pairs of an odd and an even rank, 1, 3, 5, 9 .. apart", sgp),
    entry<DirectedLinear>(2, "ranks 1, 3, 5 .. ahead and back, in turns", sgp),
    entry<BipartiteLinear>(3, "pairs of an odd and an even rank, 1, 3, 5, 7 .. apart", sgp),
    entry<Ring>(4, "the next and the previous rank", "Lian et al., NeurIPS 2017"),
    entry<Exponential>(5, "ranks 1, 2, 4 .. ahead, in turns; with more peers j (peers + 1)^i, j = 1 .. peers at once",
                       sgp),
    entry<StaticExponential>(-1, "ranks 1, 2, 4 .. ahead, all at once", "Ying et al., NeurIPS 2021"),
    entry<Complete>(-1, "all ranks with each other", ""),
    entry<Star>(-1, "all ranks with rank 0", ""),
    entry<Torus>(-1, "the four neighbours in a grid whose ends meet", ""),
    entry<Hypercube>(-1, "ranks whose numbers differ in one bit; with peers=1 one bit per round", ""),
    entry<RandomRegular>(-1, "k random neighbours, the same in every round", "Steger, Wormald, 1999"),
    entry<Hosts>(-1, "all ranks of a host, and then ranks 1, 2, 4 .. hosts ahead, in turns", ""),
    TopologyEntry{"graph", -1,
                  "your own: the receivers of each rank, in one round or several, from text or a .toml file", "",
                  [] { return AnyOptions(Given{}); },
                  [](const AnyOptions& options, int ranks) {
                    return given_topology(given_graphs(options.as<Given>().sends_to, ranks));
                  }},
};

constexpr Table<TopologyEntry> table("topology", entries);

// The name of the topology with this id; empty when the text is not a number.
std::string_view named_by_id(std::string_view option, std::string_view text) {
  const auto id = parsed<int>(text);
  if (!id) return "";
  const auto* const found = std::ranges::find(entries, *id, &TopologyEntry::id);
  if (*id >= 0 && found != entries.end()) return found->name;
  throw ConfigError(fmt::format("{}: topologies have ids 0 to 5, and names: {}", named(option, text),
                                fmt::join(table.names(), ", ")));
}

}  // namespace

const Table<TopologyEntry>& topology_table() { return table; }

TopologySpec read_topology(std::string_view text, std::string_view option) {
  if (text.ends_with(".toml")) {
    const std::string path(text);
    TopologySpec spec = table.choose("graph", Given{read_topology_file(option, path)});
    spec.place = {std::string(option), path, path, 0};
    return spec;
  }
  const std::string_view name = named_by_id(option, text);
  return table.read(option, name.empty() ? text : name);
}

Topology make_topology(const TopologySpec& spec, int ranks) {
  return with_place(spec, [&] {
    if (ranks < 1) throw ConfigError(fmt::format("{} ranks: a topology has at least one", ranks));
    return spec.entry->make(spec.options, ranks);
  });
}

namespace {

constexpr std::uint64_t largest = 1'000'000'000'000;  // the largest epoch (or step) and number of peers

std::optional<std::uint64_t> whole_number(std::string_view text) {
  const auto number = parsed<std::uint64_t>(text);
  return number && *number <= largest ? number : std::nullopt;
}

}  // namespace

std::vector<TopologyPhase> read_peer_schedule(std::string_view option, std::string_view text,
                                              const TopologySpec& topology, int ranks) {
  std::vector<TopologyPhase> phases;
  for (std::string_view rest = text;;) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    const std::size_t colon = std::min(pair.find(':'), pair.size());
    const auto epoch = whole_number(pair.substr(0, colon));
    const auto peers = whole_number(pair.substr(std::min(colon + 1, pair.size())));
    const bool follows = epoch && (phases.empty() ? *epoch == 0 : *epoch > phases.back().first);
    if (!follows || !peers || *peers == 0) {
      throw ConfigError(
          fmt::format("{}: say from which epoch on there are how many peers, from epoch 0 on, as in "
                      "0:1,10:2; `{}` does not",
                      named(option, text), pair));
    }
    phases.push_back({*epoch, topology});
    if (!set_number(phases.back().topology.options, "peers", static_cast<double>(*peers))) {
      throw ConfigError(
          fmt::format("{}: `{}` always has the same peers; exponential, directed_exponential and others "
                      "that have `peers` in `sotto topology list` may have more later",
                      named(option), topology.text()));
    }
    const std::size_t all = make_topology(phases.back().topology, ranks).peers();
    if (all < *peers) {
      throw ConfigError(fmt::format("{}: among {} ranks of `{}` each has {} peers, not {}", named(option, text), ranks,
                                    topology.source_text(), all, *peers));
    }
    if (pair.size() == rest.size()) return phases;
    rest.remove_prefix(pair.size() + 1);
  }
}

std::vector<TopologyPhase> by_steps(std::vector<TopologyPhase> epochs, const EpochLength& epoch) {
  for (TopologyPhase& phase : epochs) phase.first = epoch.first_step_in(phase.first);
  return epochs;
}

}  // namespace sotto
