#include "sotto/core/state.h"

#include <fmt/format.h>

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

}  // namespace sotto
