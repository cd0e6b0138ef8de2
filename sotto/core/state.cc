#include "sotto/core/state.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/error.h"

namespace sotto {

void visit_vector(StateVisitor& visitor, std::string_view name, std::vector<float>& values) {
  const std::size_t size = values.size();
  visitor.visit(name, values);
  const std::size_t read = values.size();
  if (read == size) return;
  values.resize(size);  // a reader takes any length for an empty vector
  throw FileError(
      fmt::format("{} has {} values, and should have {}: another optimiser, option or model", name, read, size));
}

template <class T>
void StateCopy::copy(Values<T>& kept, std::string_view name, T& value) {
  const auto found = kept.find(name);
  if (!gives_) {
    if (found == kept.end()) {
      kept.emplace(name, value);
    } else {
      found->second = value;
    }
  } else if (found == kept.end()) {
    throw FileError(fmt::format("a copied state: has no `{}`", name));
  } else {
    value = found->second;
  }
}

void StateCopy::visit(std::string_view name, std::span<float> values) {
  std::vector<float>& kept = floats_[std::string(name)];
  if (!gives_) {
    kept.assign(values.begin(), values.end());
  } else if (kept.size() == values.size()) {
    std::ranges::copy(kept, values.begin());
  } else {
    throw FileError(fmt::format("a copied state: `{}` has {} values, not {}", name, kept.size(), values.size()));
  }
}

void StateCopy::visit_all(StateVisitor& visitor) {
  for (auto& [name, values] : floats_) visitor.visit(name, values);
  for (auto& [name, bytes] : bytes_) visitor.visit(name, bytes);
  for (auto& [name, value] : numbers_) visitor.visit(name, value);
}

template void StateCopy::copy(Values<std::vector<float>>&, std::string_view, std::vector<float>&);
template void StateCopy::copy(Values<std::vector<std::uint8_t>>&, std::string_view, std::vector<std::uint8_t>&);
template void StateCopy::copy(Values<std::uint64_t>&, std::string_view, std::uint64_t&);

}  // namespace sotto
