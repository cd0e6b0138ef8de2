#include "sotto/topology/given_graphs.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "sotto/core/error.h"
#include "sotto/core/expression.h"
#include "sotto/core/file.h"
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

namespace {

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  std::string graphs(const toml::table& table) const {
    std::string text;
    const toml::array& rounds = array(table.get("round"), table, "[[round]]");
    for (const toml::node& round : rounds) {
      if (!round.is_table()) fail(round, "write each round as [[round]], with `sends_to` or `matrix` below it");
      text += (text.empty() ? "" : " / ") + round_text(*round.as_table());
    }
    if (text.empty()) fail(rounds, "there is no round");
    only({"round"}, table);
    return text;
  }

 private:
  std::string round_text(const toml::table& round) const {
    only({"sends_to", "matrix"}, round);
    if (round.size() != 1) fail(round, "a round has one of `sends_to` and `matrix`");
    const bool lists = round.contains("sends_to");
    const toml::array& rows = array(round.get(lists ? "sends_to" : "matrix"), round, lists ? "sends_to" : "matrix");
    const std::string text = lists ? lists_text(rows) : matrix_text(rows);
    return text.starts_with(' ') ? text.substr(1) : text;
  }

  std::string lists_text(const toml::array& lists) const {
    std::string text;
    for (const toml::node& list : lists) {
      if (&list != &lists.front()) text += ";";
      for (const toml::node& peer : array(&list, list, "a list of ranks")) {
        const auto number = peer.value_exact<std::int64_t>();
        if (!number) fail(peer, "a rank must be a whole number");
        text += fmt::format(" {}", *number);
      }
    }
    return text;
  }

  std::string matrix_text(const toml::array& rows) const {
    std::vector<std::vector<double>> shares;
    for (const toml::node& row : rows) {
      auto& numbers = shares.emplace_back();
      for (const toml::node& share : array(&row, row, "a row of shares")) {
        const auto number = share.is_number() ? share.value<double>() : std::nullopt;
        if (!number || !(*number >= 0 && *number <= 1)) fail(share, "a share must be a number from 0 to 1");
        numbers.push_back(*number);
      }
      if (numbers.size() != rows.size())
        fail(row, fmt::format("the matrix has {} rows: so many shares belong here", rows.size()));
    }
    std::string text;
    for (std::size_t from = 0; from < shares.size(); ++from) {
      if (from > 0) text += ";";
      double sum = 0;
      for (std::size_t to = 0; to < shares.size(); ++to) {
        sum += shares[to][from];
        if (to != from && shares[to][from] > 0) text += fmt::format(" {}:{}", to, format_double(shares[to][from]));
      }
      constexpr double rounding = 1e-6;  // shares may be written with seven digits
      if (std::abs(sum - 1) > rounding) {
        fail(rows,
             fmt::format("column {} adds up to {:g}: what rank {} keeps and sends must add up to 1", from, sum, from));
      }
    }
    return text;
  }

  const toml::array& array(const toml::node* node, const toml::node& around, std::string_view what) const {
    if (node == nullptr) fail(around, fmt::format("{} is missing", what));
    if (!node->is_array()) fail(*node, fmt::format("{} must be a list", what));
    return *node->as_array();
  }

  void only(std::initializer_list<std::string_view> known, const toml::table& table) const {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(known, key.str()) == known.end()) {
        fail(node, unknown_name("key", std::string(key.str()), std::vector(known)));
      }
    }
  }

  [[noreturn]] void fail(const toml::node& node, const std::string& message) const {
    throw ConfigError(fmt::format("{}:{}: {}", file_, node.source().begin.line, message));
  }

  std::string file_;
};

}  // namespace

std::string read_topology_file(std::string_view option, const std::string& path) {
  const std::string place = named(option, path);
  const std::string content = read_text(path);
  try {
    return Reader(place).graphs(toml::parse(content, path));
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw ConfigError(fmt::format("{}:{}:{}: {}", place, at.line, at.column, error.description()));
  }
}

}  // namespace sotto
