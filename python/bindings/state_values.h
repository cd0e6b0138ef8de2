#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sotto/core/state.h"

namespace sotto::python {

using StateValue = std::variant<std::vector<float>, std::vector<std::uint8_t>, std::uint64_t>;
using StateValues = std::map<std::string, StateValue, std::less<>>;

// Collects what it visits.
class StateCollector final : public StateVisitor {
 public:
  void visit(std::string_view name, std::vector<float>& values) override { keep(name, values); }
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override { keep(name, bytes); }
  void visit(std::string_view name, std::uint64_t& value) override { keep(name, value); }

  StateValues take() { return std::move(values_); }

 private:
  void keep(std::string_view name, StateValue value) { values_.insert_or_assign(std::string(name), std::move(value)); }

  StateValues values_;
};

// Whether a value of a lane ("0/memory.ef") belongs to its memory.
bool is_memory(std::string_view name);

// Puts collected values back: all, or those of memories only. FileError when one is missing, of another kind, or of
// another length than the vector that it is put into (an empty vector takes any length).
class StateRestorer final : public StateVisitor {
 public:
  StateRestorer(const StateValues& values, bool memories_only) : values_(values), memories_only_(memories_only) {}

  void visit(std::string_view name, std::vector<float>& values) override;
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override;
  void visit(std::string_view name, std::uint64_t& value) override;

  // FileError when a value was not asked for.
  void finish() const;

 private:
  template <class Value>
  const Value& take(std::string_view name);
  template <class Vector>
  void restore(std::string_view name, Vector& into);
  bool wanted(std::string_view name) const { return !memories_only_ || is_memory(name); }

  const StateValues& values_;
  bool memories_only_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace sotto::python
