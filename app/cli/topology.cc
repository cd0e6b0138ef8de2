#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/cli/report/plot.h"
#include "app/report/html.h"
#include "app/report/text_table.h"
#include "sotto/core/file.h"
#include "sotto/topology/mixing_matrix.h"
#include "sotto/topology/table.h"

namespace sotto {
namespace {

constexpr double side = 260;  // of one round's square
constexpr double top = 44, radius = 96, node = 10;
constexpr std::size_t most_beside = 4, most_drawn_rounds = 12;

struct Point {
  double x, y;
};

// Rank 0 at the top, then clockwise.
Point place(int rank, int ranks, Point middle) {
  const double angle = 2 * std::numbers::pi * rank / ranks - std::numbers::pi / 2;
  return {middle.x + radius * std::cos(angle), middle.y + radius * std::sin(angle)};
}

std::string arrow(Point from, Point to, bool both, std::string_view colour) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  const double x = (to.x - from.x) / length, y = (to.y - from.y) / length;
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"1.4\" "
      "marker-end=\"url(#head)\"{}/>\n",
      from.x + node * x, from.y + node * y, to.x - (node + 2) * x, to.y - (node + 2) * y, colour,
      both ? " marker-start=\"url(#head)\"" : "");
}

std::string drawn(const Graph& graph, std::size_t round, Point corner) {
  const Point middle{corner.x + side / 2, corner.y + side / 2 + 8};
  const std::string_view colour = plot_colours[round % plot_colours.size()];
  std::string text = fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">round {}</text>\n", middle.x,
                                 corner.y + 16, round);
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    for (const int peer : graph.out(rank)) {
      const bool both = std::ranges::count(graph.out(peer), rank) > 0;
      if (both && peer < rank) continue;  // drawn with the other direction
      text += arrow(place(rank, graph.ranks(), middle), place(peer, graph.ranks(), middle), both, colour);
    }
  }
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    const Point at = place(rank, graph.ranks(), middle);
    text += fmt::format(
        "<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"{2}\" fill=\"white\" stroke=\"#404040\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        at.x, at.y, node, at.y + 4, rank);
  }
  return text;
}

// A circle of ranks for each round, side by side, and arrows from senders to receivers. Shows at most
// `most_drawn_rounds` rounds, and says so if the topology has more.
std::string to_svg(const Topology& topology) {
  const std::size_t rounds = std::min(topology.period(), most_drawn_rounds);
  const std::size_t columns = std::min(rounds, most_beside);
  const std::size_t lines = (rounds + columns - 1) / columns;
  const std::string_view more = rounds < topology.period() ? ", the first of them" : "";
  std::string content = fmt::format(
      "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto-start-reverse\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"context-stroke\"/></marker></defs>\n"
      "<text x=\"12\" y=\"26\" font-size=\"14\" font-weight=\"bold\">{}: {} ranks, {} round{}{}</text>\n",
      escaped(topology.text()), topology.ranks(), topology.period(), topology.period() == 1 ? "" : "s", more);
  for (std::size_t round = 0; round < rounds; ++round) {
    content += drawn(topology.round(round), round,
                     {side * static_cast<double>(round % columns), top + side * static_cast<double>(round / columns)});
  }
  return svg_document(std::max(side * static_cast<double>(columns), 420.0), top + side * static_cast<double>(lines),
                      content);
}

constexpr std::string_view help = R"text(Lists and shows topologies: who exchanges with whom in each round of gossip.

Usage: sotto topology list
       sotto topology show NAME-OR-ID-OR-FILE --ranks N [--mixing NAME] [--svg FILE.svg] [--json]

Examples:
  sotto topology show exponential --ranks 8
  sotto topology show "directed_exponential(peers=2)" --ranks 8 --svg topology.svg
  sotto topology show 4 --ranks 6 --mixing metropolis --json
  sotto topology show "graph(1 2; 0; 0)" --ranks 3
)text";

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
  const auto print_options = [](const auto& entries) {
    for (const auto& entry : entries) {
      const std::string options = help_options(entry.options());
      if (!options.empty()) fmt::print("\noptions of {}\n{}", entry.name, options);
    }
  };
  print_options(topology_table());
  print_options(mixing_table());
  return 0;
}

std::string to_json(const Topology& topology, const Mixing& mixing, const Consensus& found) {
  nlohmann::ordered_json json{{"topology", topology.text()},
                              {"mixing", mixing.text()},
                              {"ranks", topology.ranks()},
                              {"symmetric", topology.symmetric()},
                              {"regular", topology.regular()},
                              {"bipartite", topology.bipartite()},
                              {"doubly_stochastic", found.doubly_stochastic},
                              {"spectral_gap", found.spectral_gap}};
  json["rounds_to_exact_average"] = found.exact_after ? nlohmann::ordered_json(*found.exact_after) : nullptr;
  for (std::size_t i = 0; i < topology.period(); ++i) {
    const MixingMatrix matrix = MixingMatrix::of(topology.round(i), mixing);
    auto& round = json["rounds"][i];
    for (int rank = 0; rank < topology.ranks(); ++rank) {
      round["sends_to"].push_back(topology.round(i).out(rank));
      auto& row = round["matrix"][static_cast<std::size_t>(rank)];
      for (int from = 0; from < topology.ranks(); ++from) row.push_back(matrix.at(rank, from));
    }
  }
  return json.dump(2) + "\n";
}

std::string to_text(const Topology& topology, const Mixing& mixing, const Consensus& found) {
  std::string text = fmt::format(
      "{}, {} ranks: {}, {}{}\n{} mixing{}; spectral gap {:.4f} a round; {}\n", topology.text(), topology.ranks(),
      topology.is_static() ? "the same in every round" : fmt::format("{} rounds in turns", topology.period()),
      topology.symmetric() ? "symmetric" : "directed", topology.bipartite() ? ", bipartite" : "", mixing.text(),
      found.doubly_stochastic ? "" : ", not doubly stochastic: push-sum weights differ", found.spectral_gap,
      found.exact_after ? fmt::format("the exact average after {} rounds", *found.exact_after)
                        : "the exact average only in the limit");
  for (std::size_t i = 0; i < topology.period(); ++i) {
    text += fmt::format("\nround {}: who sends to whom\n", i);
    for (int rank = 0; rank < topology.ranks(); ++rank) {
      text += fmt::format("{:4} -> {}\n", rank, fmt::join(topology.round(i).out(rank), " "));
    }
    if (topology.ranks() > most_printed) continue;
    text += "shares: row i, column j: how much of rank j's value rank i then has\n";
    const MixingMatrix matrix = MixingMatrix::of(topology.round(i), mixing);
    for (int to = 0; to < matrix.ranks(); ++to) {
      for (int from = 0; from < matrix.ranks(); ++from) {
        const double share = matrix.at(to, from);
        text += share == 0 ? "     ." : fmt::format(" {:.3f}", share);
      }
      text += '\n';
    }
  }
  if (topology.ranks() > most_printed) {
    text += fmt::format("\nfor more than {} ranks, shares are in --json\n", most_printed);
  }
  return text;
}

int show_topology(std::span<const std::string> arguments) {
  std::string name, svg;
  std::int64_t ranks = 8;
  std::optional<std::string> mixing;
  bool json = false;
  Flags flags("topology show", "Shows a topology: its rounds, shares, spectral gap, and rounds to the exact average.",
              "Examples:\n  sotto topology show 5 --ranks 8\n  sotto topology show torus --ranks 12 --svg torus.svg");
  flags.add_positional("topology", name, "a name, with options in brackets, an id, or a .toml file", true);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("ranks", ranks, "number of ranks", {1, 1024});
    v.option("mixing", mixing,
             "the shares that ranks keep and send: uniform, metropolis, self_weighted(share); auto: the topology's "
             "own, else uniform");
    v.option("svg", svg, "draw the rounds into this .svg file");
    v.option("json", json, "print JSON");
  };
  if (!flags.read(arguments, visit)) return 0;
  if (!svg.empty()) require_ending("svg", svg, ".svg");
  const Topology topology = make_topology(read_topology(name, "topology show"), static_cast<int>(ranks));
  const auto shares = make_mixing(read_mixing(mixing.value_or("")), topology);
  const Consensus found = consensus(topology, *shares);
  fmt::print("{}", json ? to_json(topology, *shares, found) : to_text(topology, *shares, found));
  if (!svg.empty()) write_file_atomic(svg, to_svg(topology));
  return 0;
}

constexpr std::array<Command, 2> actions{{{"list", "", list_topologies}, {"show", "", show_topology}}};

}  // namespace

int run_topology(std::span<const std::string> arguments) { return run_action("topology", actions, help, arguments); }

}  // namespace sotto
