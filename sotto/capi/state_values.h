#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/state.h"

namespace sotto {

using StateValue = std::variant<std::vector<float>, std::vector<std::uint8_t>, std::uint64_t>;
using StateValues = std::map<std::string, StateValue, std::less<>>;

// Collects the values that it visits.
class StateCollector final : public StateVisitor {
 public:
  void visit(std::string_view name, std::vector<float>& values) override { keep(name, values); }
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override { keep(name, bytes); }
  void visit(std::string_view name, std::uint64_t& value) override { keep(name, value); }

  StateValues take() { return std::move(values_); }
  const StateValues& values() const { return values_; }

 private:
  // A name that is collected again replaces its earlier value.
  template <class Value>
  void keep(std::string_view name, const Value& value) {
    const auto found = values_.find(name);
    if (found == values_.end()) {
      values_.emplace(name, value);
    } else {
      found->second = value;
    }
  }

  StateValues values_;
};

// Collects only the names of the values that it visits.
class StateNames final : public StateVisitor {
 public:
  void visit(std::string_view name, std::vector<float>& /*values*/) override { names_.emplace(name); }
  void visit(std::string_view name, std::vector<std::uint8_t>& /*bytes*/) override { names_.emplace(name); }
  void visit(std::string_view name, std::uint64_t& /*value*/) override { names_.emplace(name); }

  std::vector<std::string> take() const { return {names_.begin(), names_.end()}; }

 private:
  std::set<std::string, std::less<>> names_;
};

// Writes collected values back into what it visits. FileError if a value is missing, of another kind, or of another
// length than the vector that it is written into (an empty vector takes any length).
class StateRestorer final : public StateVisitor {
 public:
  explicit StateRestorer(const StateValues& values) : values_(values) {}

  void visit(std::string_view name, std::vector<float>& values) override;
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override;
  void visit(std::string_view name, std::uint64_t& value) override;

  // FileError if a value was not visited.
  void finish() const;

 private:
  template <class Value>
  const Value& take(std::string_view name);
  template <class Vector>
  void restore(std::string_view name, Vector& into);

  const StateValues& values_;
  std::set<std::string, std::less<>> taken_;
};

template <class Value>
const Value& StateRestorer::take(std::string_view name) {
  const auto found = values_.find(name);
  if (found == values_.end()) throw FileError(fmt::format("the state holds no `{}`", name));
  const Value* value = std::get_if<Value>(&found->second);
  if (value == nullptr) throw FileError(fmt::format("`{}` in the state is of another kind", name));
  taken_.emplace(name);
  return *value;
}

template <class Vector>
inline void StateRestorer::restore(std::string_view name, Vector& into) {
  const auto& from = take<Vector>(name);
  if (!into.empty() && into.size() != from.size()) {
    throw FileError(fmt::format("`{}` in the state has {} values where {} belong", name, from.size(), into.size()));
  }
  into = from;
}

inline void StateRestorer::visit(std::string_view name, std::vector<float>& values) { restore(name, values); }
inline void StateRestorer::visit(std::string_view name, std::vector<std::uint8_t>& bytes) { restore(name, bytes); }
inline void StateRestorer::visit(std::string_view name, std::uint64_t& value) { value = take<std::uint64_t>(name); }

inline void StateRestorer::finish() const {
  for (const auto& [name, value] : values_) {
    if (!taken_.contains(name)) throw FileError(fmt::format("the state holds `{}`, which nothing asks for", name));
  }
}

}  // namespace sotto
