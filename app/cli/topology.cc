#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/cli/topology_drawing.h"
#include "app/report/text_table.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/topology/mixing_matrix.h"
#include "sotto/topology/table.h"

namespace sotto {
namespace {

constexpr std::string_view help = R"text(Lists and shows topologies: who exchanges with whom in each round of gossip.

Usage: sotto topology list
       sotto topology show NAME-OR-ID-OR-FILE --ranks N [--mixing NAME] [--svg FILE.svg] [--json]

Examples:
  sotto topology show exponential --ranks 8
  sotto topology show "directed_exponential(peers=2)" --ranks 8 --svg topology.svg
  sotto topology show 4 --ranks 6 --mixing metropolis --json
  sotto topology show "graph(1 2; 0; 0)" --ranks 3
)text";

struct ShowOptions {
  std::int64_t ranks = 8;
  std::optional<std::string> mixing;
  std::string svg;
  bool json = false;
  void visit(OptionVisitor& v) {
    v.option("ranks", ranks, "number of ranks", {1, 1024});
    v.option("mixing", mixing,
             "the shares that ranks keep and send: uniform, metropolis, self_weighted(share); auto: the topology's "
             "own, else uniform");
    v.option("svg", svg, "draw the rounds into this .svg file");
    v.option("json", json, "print JSON");
  }
};

constexpr int most_printed = 16;  // ranks whose matrices are printed

int list_topologies(std::span<const std::string> arguments) {
  Flags flags("topology list", "Lists topologies and mixings.", "");
  if (!flags.parse(arguments)) return 0;
  TextTable table({"name", "id", "what", "paper"});
  for (const std::size_t column : {2, 3}) table.left(column);
  for (const TopologyEntry& entry : topology_table()) {
    table.add({std::string(entry.name), entry.id < 0 ? "" : std::to_string(entry.id), std::string(entry.summary),
               std::string(entry.paper)});
  }
  TextTable mixings({"mixing", "what", "paper"});
  for (const std::size_t column : {1, 2}) mixings.left(column);
  for (const MixingEntry& entry : mixing_table()) {
    mixings.add({std::string(entry.name), std::string(entry.summary), std::string(entry.paper)});
  }
  fmt::print("{}\n{}", table.plain(), mixings.plain());
  const auto print_options = [](std::string_view name, const std::string& options) {
    if (!options.empty()) fmt::print("\noptions of {}\n{}", name, options);
  };
  for (const TopologyEntry& entry : topology_table()) print_options(entry.name, help_options(entry.options()));
  for (const MixingEntry& entry : mixing_table()) print_options(entry.name, help_options(entry.options()));
  return 0;
}

std::string exactness(const Consensus& found) {
  return found.exact_after ? fmt::format("the exact average after {} rounds", *found.exact_after)
                           : "the exact average only in the limit";
}

nlohmann::ordered_json to_json(const MixingMatrix& matrix) {
  auto rows = nlohmann::ordered_json::array();
  for (int to = 0; to < matrix.ranks(); ++to) {
    auto row = nlohmann::ordered_json::array();
    for (int from = 0; from < matrix.ranks(); ++from) row.push_back(matrix.at(to, from));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string to_json(const Topology& topology, const Mixing& mixing, const Consensus& found) {
  auto rounds = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < topology.period(); ++i) {
    auto sends = nlohmann::ordered_json::array();
    for (int rank = 0; rank < topology.ranks(); ++rank) sends.push_back(topology.round(i).out(rank));
    rounds.push_back({{"sends_to", sends}, {"matrix", to_json(MixingMatrix::of(topology.round(i), mixing))}});
  }
  nlohmann::ordered_json json{{"topology", topology.text()},
                              {"mixing", mixing.text()},
                              {"ranks", topology.ranks()},
                              {"symmetric", topology.symmetric()},
                              {"regular", topology.regular()},
                              {"bipartite", topology.bipartite()},
                              {"doubly_stochastic", found.doubly_stochastic},
                              {"spectral_gap", found.spectral_gap}};
  json["rounds_to_exact_average"] = found.exact_after ? nlohmann::ordered_json(*found.exact_after) : nullptr;
  json["rounds"] = std::move(rounds);
  return json.dump(2) + "\n";
}

std::string matrix_text(const MixingMatrix& matrix) {
  std::string text;
  for (int to = 0; to < matrix.ranks(); ++to) {
    for (int from = 0; from < matrix.ranks(); ++from) {
      const double share = matrix.at(to, from);
      text += share == 0 ? "     ." : fmt::format(" {:.3f}", share);
    }
    text += '\n';
  }
  return text;
}

std::string to_text(const Topology& topology, const Mixing& mixing, const Consensus& found) {
  std::string text = fmt::format(
      "{}, {} ranks: {}, {}{}\n{} mixing{}; spectral gap {:.4f} a round; {}\n", topology.text(), topology.ranks(),
      topology.is_static() ? "the same in every round" : fmt::format("{} rounds in turns", topology.period()),
      topology.symmetric() ? "symmetric" : "directed", topology.bipartite() ? ", bipartite" : "", mixing.text(),
      found.doubly_stochastic ? "" : ", not doubly stochastic: push-sum weights differ", found.spectral_gap,
      exactness(found));
  for (std::size_t i = 0; i < topology.period(); ++i) {
    text += fmt::format("\nround {}: who sends to whom\n", i);
    for (int rank = 0; rank < topology.ranks(); ++rank) {
      text += fmt::format("{:4} -> {}\n", rank, fmt::join(topology.round(i).out(rank), " "));
    }
    if (topology.ranks() > most_printed) continue;
    text += "shares: row i, column j: how much of rank j's value rank i then has\n";
    text += matrix_text(MixingMatrix::of(topology.round(i), mixing));
  }
  if (topology.ranks() > most_printed) {
    text += fmt::format("\nfor more than {} ranks, shares are in --json\n", most_printed);
  }
  return text;
}

int show_topology(std::span<const std::string> arguments) {
  constexpr std::string_view own_name = "topology show";
  std::string name;
  ShowOptions options;
  Flags flags("topology show", "Shows a topology: its rounds, shares, spectral gap, and rounds to the exact average.",
              "Examples:\n  sotto topology show 5 --ranks 8\n  sotto topology show torus --ranks 12 --svg torus.svg");
  flags.add_positional("topology", name, "a name, with options in brackets, an id, or a .toml file", true);
  if (!flags.read(arguments, options)) return 0;
  if (!options.svg.empty()) require_ending("svg", options.svg, ".svg");
  const Topology topology = make_topology(read_topology(name, own_name), static_cast<int>(options.ranks));
  const auto mixing = make_mixing(read_mixing(options.mixing.value_or("")), topology);
  const Consensus found = consensus(topology, *mixing);
  fmt::print("{}", options.json ? to_json(topology, *mixing, found) : to_text(topology, *mixing, found));
  if (!options.svg.empty()) write_file_atomic(options.svg, to_svg(topology));
  return 0;
}

constexpr std::array<Command, 2> actions{{{"list", "", list_topologies}, {"show", "", show_topology}}};

}  // namespace

int run_topology(std::span<const std::string> arguments) { return run_action("topology", actions, help, arguments); }

}  // namespace sotto
