// Reads links from a TOML file.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>

#include "sotto/comm/emulated/links.h"
#include "sotto/core/expression.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

// A table of the file. Keys that are never requested are unknown.
class Keys {
 public:
  Keys(std::string file, const toml::table& table, int size) : file_(std::move(file)), table_(table), size_(size) {}

  std::optional<double> rate(std::string_view key) {
    const auto text = value<std::string>(key, "text in quotes, as \"100mbit\"");
    return text ? std::optional(parse_rate(place(key), *text)) : std::nullopt;
  }
  std::optional<double> duration(std::string_view key) {
    const auto text = value<std::string>(key, "text in quotes, as \"5ms\"");
    return text ? std::optional(parse_duration(place(key), *text, true)) : std::nullopt;
  }
  int rank(std::string_view key) {
    const auto number = value<std::int64_t>(key, "the number of a rank");
    if (!number) throw ConfigError(fmt::format("{} is missing: it says which rank this is about", place(key)));
    if (*number < 0 || *number >= size_)
      throw ConfigError(fmt::format("{}: there is no rank {}; ranks are 0 to {}", place(key), *number, size_ - 1));
    return static_cast<int>(*number);
  }
  std::optional<double> number(std::string_view key, double low, double high) {
    const auto number = value<double>(key, "a number");
    if (number && !(*number >= low && *number <= high))
      throw ConfigError(fmt::format("{}: must be from {:g} to {:g}", place(key), low, high));
    return number;
  }
  std::optional<std::int64_t> natural(std::string_view key) {
    const auto number = value<std::int64_t>(key, "a whole number");
    if (number && *number < 0) throw ConfigError(fmt::format("{}: must be 0 or more", place(key)));
    return number;
  }
  // All tables of [[key]].
  std::vector<const toml::table*> tables(std::string_view key) {
    std::vector<const toml::table*> all;
    known_.push_back(key);
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return all;
    const toml::array* const array = node->as_array();
    for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) all.push_back((*array)[i].as_table());
    if (array == nullptr || std::ranges::find(all, nullptr) != all.end())
      throw ConfigError(fmt::format("{0}: write it as [[{1}]], with what belongs to it below", place(key), key));
    return all;
  }
  void finish() const {
    for (const auto& [key, node] : table_) {
      if (std::ranges::find(known_, key.str()) == known_.end())
        throw ConfigError(
            fmt::format("{}: {}", line(key.source().begin), unknown_name("key", std::string(key.str()), known_)));
    }
  }
  // The line of this key, or of the table if the key is missing.
  std::string place(std::string_view key) const {
    const auto found = table_.find(key);
    return fmt::format("{}: {}", line((found == table_.end() ? table_.source() : found->first.source()).begin), key);
  }

 private:
  std::string line(const toml::source_position& at) const { return fmt::format("{}:{}", file_, at.line); }

  template <class T>
  std::optional<T> value(std::string_view key, const char* wanted) {
    known_.push_back(key);
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    std::optional<T> read = node->value_exact<T>();
    if constexpr (std::is_same_v<T, double>) {
      if (node->is_number()) read = node->value<double>();
    }
    if (!read) throw ConfigError(fmt::format("{} must be {}", place(key), wanted));
    return read;
  }

  std::string file_;
  const toml::table& table_;
  int size_;
  std::vector<std::string_view> known_;
};

void read_rank(Keys keys, Links& links) {
  const int rank = keys.rank("rank");
  Links::Rank link = Links{links.all}.rank(rank);
  link.egress = keys.rate("egress").value_or(link.egress);
  link.ingress = keys.rate("ingress").value_or(link.ingress);
  link.compute = keys.number("compute", 1, 1000).value_or(link.compute);
  link.delay = keys.duration("delay").value_or(link.delay);
  keys.finish();
  if (!links.ranks.emplace(rank, link).second)
    throw ConfigError(fmt::format("{}: rank {} is there twice", keys.place("rank"), rank));
}

void read_pair(Keys keys, Links& links) {
  const int from = keys.rank("from");
  const int to = keys.rank("to");
  if (from == to) throw ConfigError(fmt::format("{}: rank {} has no link to itself", keys.place("to"), to));
  LinkShape link = Links{links.all}.pair(from, to);
  link.bits_per_second = keys.rate("rate").value_or(link.bits_per_second);
  link.latency = keys.duration("latency").value_or(link.latency);
  link.jitter = keys.duration("jitter").value_or(link.jitter);
  keys.finish();
  if (!links.pairs.emplace(std::pair(from, to), link).second)
    throw ConfigError(fmt::format("{}: the link from {} to {} is there twice", keys.place("from"), from, to));
}

}  // namespace

Links parse_links(std::string_view option, const std::string& text, int size) {
  if (!text.ends_with(".toml")) return Links{parse_link(option, text)};
  const std::string place = named(option, text);
  Links links;
  links.file = read_text(text);
  try {
    const toml::table table = toml::parse(links.file, text);
    Keys keys(place, table, size);
    links.all.bits_per_second = keys.rate("rate").value_or(0);
    links.all.latency = keys.duration("latency").value_or(0);
    links.all.jitter = keys.duration("jitter").value_or(0);
    links.seed = static_cast<std::uint64_t>(keys.natural("seed").value_or(1));
    for (const toml::table* rank : keys.tables("rank")) read_rank({place, *rank, size}, links);
    for (const toml::table* pair : keys.tables("pair")) read_pair({place, *pair, size}, links);
    keys.finish();
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw ConfigError(fmt::format("{}:{}:{}: {}", place, at.line, at.column, error.description()));
  }
  return links;
}

}  // namespace sotto
