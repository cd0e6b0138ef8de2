#include "sotto/topology/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/table.h"
#include "sotto/topology/given_graphs.h"
#include "sotto/topology/graphs.h"

namespace sotto {
namespace {

std::vector<Graph> shifts(int ranks, const std::vector<int>& offsets) {
  std::vector<Graph> graphs;
  for (const int offset : offsets) graphs.push_back(shift(ranks, offset));
  return graphs;
}

std::vector<Graph> pairings(int ranks, const std::vector<int>& offsets) {
  std::vector<Graph> graphs;
  for (const int offset : offsets) graphs.push_back(pairs(ranks, offset));
  return graphs;
}

std::string unless_even(int ranks) {
  if (ranks % 2 == 0 || ranks == 1) return "";
  return fmt::format("it is of pairs, and {} ranks are no even number; `exponential` is for any number", ranks);
}

// A kind of topology: its options, why there is none of them for so many ranks, and the graphs that rounds take.
struct Peers {
  std::int64_t peers = 0;
  void visit(OptionVisitor& v) {
    v.option("peers", peers, "of them a rank has in a round, the next ones in each; 0: all", Bounds{0, 1e6});
  }
  std::string problem(int /*ranks*/) const { return ""; }
};
struct OnePeer : Peers {
  OnePeer() : Peers{1} {}
};

struct DirectedExponential : OnePeer {
  std::vector<Graph> cycle(int ranks) const { return shifts(ranks, exponential_offsets(ranks)); }
};
struct BipartiteExponential : OnePeer {
  std::string problem(int ranks) const { return unless_even(ranks); }
  std::vector<Graph> cycle(int ranks) const { return pairings(ranks, bipartite_offsets(ranks)); }
};
struct DirectedLinear : OnePeer {
  std::vector<Graph> cycle(int ranks) const { return shifts(ranks, linear_offsets(ranks)); }
};
struct BipartiteLinear : OnePeer {
  std::string problem(int ranks) const { return unless_even(ranks); }
  std::vector<Graph> cycle(int ranks) const { return pairings(ranks, linear_offsets(ranks)); }
};
struct Ring : Peers {
  std::vector<Graph> cycle(int ranks) const { return shifts(ranks, distinct_offsets(ranks, {1, -1})); }
};
struct Exponential : OnePeer {
  std::string problem(int /*ranks*/) const {
    return peers == 0 ? "its peers are j (peers + 1)^i further on: say how many, at least 1" : "";
  }
  std::vector<Graph> cycle(int ranks) const {
    return shifts(ranks, peer_offsets(ranks, static_cast<int>(std::min<std::int64_t>(peers, ranks))));
  }
};
struct StaticExponential : Peers {
  std::vector<Graph> cycle(int ranks) const { return shifts(ranks, peer_offsets(ranks, 1)); }
};
struct Complete : Peers {
  std::vector<Graph> cycle(int ranks) const {
    std::vector<Graph> graphs;
    for (int offset = 1; offset < ranks; ++offset) graphs.push_back(shift(ranks, offset));
    return graphs;
  }
};
struct Star {
  static constexpr std::int64_t peers = 0;
  void visit(OptionVisitor&) {}
  std::string problem(int /*ranks*/) const { return ""; }
  std::vector<Graph> cycle(int ranks) const { return {star(ranks)}; }
};
struct Torus : Peers {
  std::int64_t rows = 0;
  void visit(OptionVisitor& v) {
    v.option("rows", rows, "of the grid, a divisor of the ranks; 0: the largest that is not above the columns",
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
  std::string problem(int ranks) const {
    return std::has_single_bit(static_cast<unsigned>(ranks)) ? "" : fmt::format("{} ranks are no power of two", ranks);
  }
  std::vector<Graph> cycle(int ranks) const { return hypercube(ranks); }
};
struct RandomRegular {
  static constexpr std::int64_t peers = 0;
  std::int64_t k = 3;
  std::int64_t seed = 1;
  void visit(OptionVisitor& v) {
    v.option("k", k, "neighbours of a rank", Bounds{1, 64});
    v.option("seed", seed, "of the graph, which stays the same", Bounds{0, 4294967295.0});
  }
  std::string problem(int ranks) const {
    if (ranks == 1) return "";
    if (k == 1 && ranks > 2) return "pairs for ever would never reach the others: k must be at least 2";
    if (k >= ranks) return fmt::format("k must be below the number of ranks, {}", ranks);
    return k * ranks % 2 == 0 ? ""
                              : fmt::format("k times ranks must be even: there is none with k={} for {}", k, ranks);
  }
  std::vector<Graph> cycle(int ranks) const {
    return {ranks == 1 ? Graph(1) : random_regular(ranks, static_cast<int>(k), static_cast<std::uint64_t>(seed))};
  }
};
struct Hosts : OnePeer {
  std::int64_t size = 0;
  void visit(OptionVisitor& v) {
    v.option("size", size, "ranks of a host, one after the other; 0: as the starter of several hosts says",
             Bounds{0, 1e6});
    OnePeer::visit(v);
  }
  std::string problem(int ranks) const {
    if (size == 0) return "say how many ranks a host has, as in hosts(4)";
    return ranks % size == 0 ? "" : fmt::format("{} ranks are no whole hosts of {}", ranks, size);
  }
  std::vector<Graph> cycle(int ranks) const { return groups(ranks, static_cast<int>(size)); }
};

template <class Kind>
Topology make(const Sentence& sentence, const Call& call, int ranks) {
  Kind kind;
  read_options(sentence, call, kind);
  if (const std::string problem = kind.problem(ranks); !problem.empty()) {
    fail_at(sentence, call, call.position, problem);
  }
  std::vector<Graph> cycle = kind.cycle(ranks);
  if (cycle.empty()) cycle.emplace_back(ranks);  // one rank alone
  return {record_options(call.name, kind), std::move(cycle), static_cast<std::size_t>(kind.peers)};
}

struct Given {
  std::string sends_to;
  void visit(OptionVisitor& v) {
    v.option("sends_to", sends_to,
             "whom each rank sends to, rank after rank: `1 2; 0; 0`, or with shares `1:0.25 2:0.25; 0:0.5; 0:0.5`; "
             "rounds that take turns stand with ` / ` between them");
  }
};

Topology make_given(const Sentence& sentence, const Call& call, int ranks) {
  Given given;
  read_options(sentence, call, given);
  const std::size_t place = call.arguments.empty() ? call.position : call.arguments.front().value_position;
  try {
    return given_topology(given_graphs(given.sends_to, ranks));
  } catch (const ConfigError& error) {
    fail_at(sentence, call, place, error.what());
  }
}

template <class Kind>
constexpr TopologyEntry entry(std::string_view name, int id, std::string_view summary, std::string_view paper) {
  return {name, id, summary, paper, [] { return help_options(Kind{}); }, make<Kind>};
}

constexpr std::string_view sgp = "Assran et al., ICML 2019";
constexpr std::array table{
    entry<DirectedExponential>("directed_exponential", 0, "1, 2, 4 .. further on and back, in turns", sgp),
    entry<BipartiteExponential>("bipartite_exponential", 1, "pairs of an odd and an even rank 1, 3, 5, 9 .. apart",
                                sgp),
    entry<DirectedLinear>("directed_linear", 2, "1, 3, 5 .. further on and back, in turns", sgp),
    entry<BipartiteLinear>("bipartite_linear", 3, "pairs of an odd and an even rank 1, 3, 5, 7 .. apart", sgp),
    entry<Ring>("ring", 4, "the ranks before and behind", "Lian et al., NeurIPS 2017"),
    entry<Exponential>("exponential", 5,
                       "1, 2, 4 .. further on, in turns; with more peers j (peers + 1)^i, j = 1 .. peers at once", sgp),
    entry<StaticExponential>("static_exponential", -1, "1, 2, 4 .. further on, all at once",
                             "Ying et al., NeurIPS 2021"),
    entry<Complete>("complete", -1, "everybody with everybody", ""),
    entry<Star>("star", -1, "everybody with rank 0", ""),
    entry<Torus>("torus", -1, "four neighbours of a grid whose ends meet", ""),
    entry<Hypercube>("hypercube", -1, "ranks whose numbers differ in one bit; with peers=1 one bit after the other",
                     ""),
    entry<RandomRegular>("random_regular", -1, "k neighbours at random, the same for ever", "Steger, Wormald, 1999"),
    entry<Hosts>("hosts", -1, "all ranks of a host, and then ranks 1, 2, 4 .. hosts further on, in turns", ""),
    TopologyEntry{"graph", -1, "your own: whom each rank sends to, in one round or several, from text or a .toml file",
                  "", [] { return help_options(Given{}); }, make_given},
};

}  // namespace

std::span<const TopologyEntry> topology_table() { return table; }

Topology make_topology(std::string_view where, std::string_view text, int ranks) {
  int id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc{} && end == text.data() + text.size()) {
    const auto* const found = std::ranges::find(table, id, &TopologyEntry::id);
    if (id < 0 || found == table.end()) {
      throw ConfigError(fmt::format("{}: topologies have ids 0 to 5, and names: {}", named(where, text),
                                    fmt::join(names_of(topology_table()), ", ")));
    }
    return make_topology(where, found->name, ranks);
  }
  const Sentence sentence = parse_sentence(where, text);
  const Call& call = sentence.calls.front();
  if (sentence.calls.size() > 1) fail_at(sentence, call, sentence.calls[1].position, "a topology is a single call");
  return require_entry(topology_table(), "topology", sentence, call).make(sentence, call, ranks);
}

}  // namespace sotto
