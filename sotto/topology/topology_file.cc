#include "sotto/topology/topology_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/expression.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"

namespace sotto {
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
