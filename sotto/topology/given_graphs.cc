#include "sotto/topology/given_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "sotto/core/error.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t end = 0;
  while ((end = text.find(separator)) != std::string_view::npos) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

// Adds an edge from `rank`. `text` is the receiver, "2", or the receiver and its share, "2:0.25".
void add_peer(std::string_view text, int rank, Graph& graph) {
  const std::size_t colon = text.find(':');
  const auto peer = static_cast<int>(parse_int(fmt::format("a rank that rank {} sends to", rank), text.substr(0, colon),
                                               {0, static_cast<double>(graph.ranks() - 1)}));
  if (peer == rank) throw ConfigError(fmt::format("rank {} sends to itself: it keeps what it does not send", rank));
  if (std::ranges::count(graph.out(rank), peer) > 0) {
    throw ConfigError(fmt::format("rank {} sends to rank {} twice", rank, peer));
  }
  if (colon == std::string_view::npos) return graph.add(rank, peer);
  const std::string name = fmt::format("the share that rank {} sends to rank {}", rank, peer);
  graph.add(rank, peer, parse_double(name, text.substr(colon + 1), {0, 1, true, true}));
}

std::string text_of(const Graph& graph) {
  std::string text;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    if (rank > 0) text += ';';
    for (std::size_t i = 0; i < graph.out(rank).size(); ++i) {
      text += fmt::format("{}{}", rank + i > 0 ? " " : "", graph.out(rank)[i]);
      if (!graph.shares(rank).empty()) text += ":" + format_double(graph.shares(rank)[i]);
    }
  }
  return text;
}

void check_shares(const Graph& graph) {
  constexpr double least = 1e-6;  // the least share to keep: push-sum divides by a rank's weight
  bool some = false;
  for (int rank = 0; rank < graph.ranks(); ++rank) some = some || !graph.shares(rank).empty();
  if (!some) return;
  if (!graph.has_shares())
    throw ConfigError("some edges have a share and others do not: say the share of each, or of none");
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    double kept = 1;
    for (const double share : graph.shares(rank)) kept -= share;
    if (kept < least) {
      throw ConfigError(fmt::format("rank {} sends {:g} of what it holds: it must keep a share", rank, 1 - kept));
    }
  }
}

}  // namespace

std::vector<Graph> given_graphs(std::string_view text, int ranks) {
  std::vector<Graph> rounds;
  for (const std::string_view round : split(text, '/')) {
    const auto lists = split(round, ';');
    if (lists.size() != static_cast<std::size_t>(ranks)) {
      throw ConfigError(fmt::format("round {} has a list for each of {} ranks, and there are {}", rounds.size(),
                                    lists.size(), ranks));
    }
    Graph graph(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const std::string_view peer : split(lists[static_cast<std::size_t>(rank)], ' ')) {
        if (!peer.empty()) add_peer(peer, rank, graph);
      }
    }
    rounds.push_back(std::move(graph));
  }
  return rounds;
}

Topology given_topology(std::vector<Graph> rounds) {
  if (rounds.empty() || rounds.front().ranks() < 1)
    throw ConfigError("a topology needs at least one round and one rank");
  std::string expression = "graph(sends_to=";
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    if (rounds[i].ranks() != rounds.front().ranks()) {
      throw ConfigError(fmt::format("round 0 is one of {} ranks, and round {} one of {}", rounds.front().ranks(), i,
                                    rounds[i].ranks()));
    }
    check_shares(rounds[i]);
    if (rounds[i].has_shares() != rounds.front().has_shares()) {
      throw ConfigError("some rounds have shares and others do not: say them in all, or in none");
    }
    expression += (i > 0 ? " / " : "") + text_of(rounds[i]);
  }
  Topology topology(expression + ")", std::move(rounds), 1);
  if (!topology.connected()) throw ConfigError("what some rank holds never reaches another, in all rounds together");
  return topology;
}

}  // namespace sotto
