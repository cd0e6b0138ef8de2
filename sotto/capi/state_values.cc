#include "sotto/capi/state_values.h"

#include <fmt/format.h>

#include "sotto/core/error.h"

namespace sotto {

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
void StateRestorer::restore(std::string_view name, Vector& into) {
  const auto& from = take<Vector>(name);
  if (!into.empty() && into.size() != from.size()) {
    throw FileError(fmt::format("`{}` in the state has {} values where {} belong", name, from.size(), into.size()));
  }
  into = from;
}

void StateRestorer::visit(std::string_view name, std::vector<float>& values) { restore(name, values); }
void StateRestorer::visit(std::string_view name, std::vector<std::uint8_t>& bytes) { restore(name, bytes); }
void StateRestorer::visit(std::string_view name, std::uint64_t& value) { value = take<std::uint64_t>(name); }

void StateRestorer::finish() const {
  for (const auto& [name, value] : values_) {
    if (!taken_.contains(name)) throw FileError(fmt::format("the state holds `{}`, which nothing asks for", name));
  }
}

}  // namespace sotto
