#include "sotto/optim/stretch.h"

#include <fmt/format.h>

#include <stdexcept>

#include "sotto/core/error.h"

namespace sotto {

void require_stretch(std::span<const float> parameters, std::span<const float> mean, std::size_t begin,
                     std::size_t all) {
  if (parameters.size() == mean.size() && begin <= all && parameters.size() <= all - begin) return;
  throw std::logic_error("Optimiser: a stretch that is not part of the parameters");
}

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
