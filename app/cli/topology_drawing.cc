#include "app/cli/topology_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "app/cli/svg.h"
#include "app/report/markup.h"

namespace sotto {
namespace {

constexpr double side = 260;  // of one round's square
constexpr double top = 44, radius = 96, node = 10;
constexpr std::size_t most_beside = 4;

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
  const std::string_view colour = svg::colours[round % svg::colours.size()];
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

}  // namespace

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
  return svg::document(std::max(side * static_cast<double>(columns), 420.0), top + side * static_cast<double>(lines),
                       content);
}

}  // namespace sotto
