#include "sotto/topology/mixing.h"

#include <algorithm>
#include <array>

namespace sotto {
namespace {

// A rank with n receivers keeps 1 / (n + 1), and sends as much to each of them.
class Uniform final : public Mixing {
 public:
  using Options = NoOptions;
  explicit Uniform(const Options&) {}
  std::string text() const override { return "uniform"; }
  Shares shares(const Graph& graph, int rank) const override {
    const std::size_t peers = graph.out(rank).size();
    const double share = 1 / static_cast<double>(peers + 1);
    return {share, std::vector<double>(peers, share)};
  }
};

// Neighbours a and b send each other the share 1 / (1 + max(degree(a), degree(b))). This makes the mixing matrix of any
// symmetric graph doubly stochastic.
class Metropolis final : public Mixing {
 public:
  using Options = NoOptions;
  explicit Metropolis(const Options&) {}
  std::string text() const override { return "metropolis"; }
  Shares shares(const Graph& graph, int rank) const override {
    Shares shares;
    for (const int peer : graph.out(rank)) {
      const std::size_t most = std::max(graph.out(rank).size(), graph.out(peer).size());
      shares.sent.push_back(1 / static_cast<double>(most + 1));
      shares.kept -= shares.sent.back();
    }
    return shares;
  }
  std::string problem(const Topology& topology) const override {
    return topology.symmetric() ? "" : "needs neighbours that both send; `" + topology.text() + "` has others";
  }
};

struct SelfWeightedOptions {
  double share = 0.5;
  void visit(OptionVisitor& v) {
    v.option("share", share, "the share of its value that a rank keeps", {0, 1, true, true});
  }
};

class SelfWeighted final : public Mixing {
 public:
  using Options = SelfWeightedOptions;
  explicit SelfWeighted(const Options& options) : options_(options) {}
  std::string text() const override { return record_options("self_weighted", options_); }
  Shares shares(const Graph& graph, int rank) const override {
    const std::size_t peers = graph.out(rank).size();
    if (peers == 0) return {};
    return {options_.share, std::vector<double>(peers, (1 - options_.share) / static_cast<double>(peers))};
  }

 private:
  Options options_;
};

// The shares that the user gave with the topology.
class Given final : public Mixing {
 public:
  using Options = NoOptions;
  explicit Given(const Options&) {}
  std::string text() const override { return "given"; }
  Shares shares(const Graph& graph, int rank) const override {
    Shares shares{1, graph.shares(rank)};
    for (const double sent : shares.sent) shares.kept -= sent;
    return shares;
  }
  std::string problem(const Topology& topology) const override {
    return topology.has_shares() ? "" : "is for topologies that say their shares; `" + topology.text() + "` does not";
  }
};

template <class Kind>
constexpr MixingEntry entry(std::string_view name, std::string_view summary, std::string_view paper) {
  using Options = typename Kind::Options;
  return {name, summary, paper, [] { return AnyOptions(Options{}); },
          [](const AnyOptions& options) -> std::unique_ptr<Mixing> {
            return std::make_unique<Kind>(options.as<Options>());
          }};
}

constexpr std::array entries{
    entry<Uniform>("uniform", "a rank keeps as much as it sends to each peer", "Assran et al., ICML 2019"),
    entry<Metropolis>("metropolis", "shares depend on the larger degree of two neighbours", "Xiao, Boyd, 2004"),
    entry<SelfWeighted>("self_weighted", "a rank keeps a given share, and sends the rest in equal parts", ""),
    entry<Given>("given", "the shares of the topology itself, such as graph(1:0.5; 0:0.5)", ""),
};

constexpr Table<MixingEntry> table("mixing", entries);

}  // namespace

const Table<MixingEntry>& mixing_table() { return table; }

MixingSpec read_mixing(std::string_view text) { return text.empty() ? MixingSpec{} : table.read("mixing", text); }

MixingSpec default_mixing(const Topology& topology) {
  return table.choose(topology.ranks() > 1 && topology.has_shares() ? "given" : "uniform");
}

std::unique_ptr<Mixing> make_mixing(const MixingSpec& spec, const Topology& topology) {
  if (!spec) return make_mixing(default_mixing(topology), topology);
  auto mixing = spec.entry->make(spec.options);
  if (const std::string problem = mixing->problem(topology); !problem.empty()) {
    with_place(spec, [&] { throw ConfigError(problem); });
  }
  return mixing;
}

}  // namespace sotto
