#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sotto {

// Walks over everything that a component must remember across a restart. The same walk writes a checkpoint and reads one:
// a reading visitor replaces the values, and throws FileError when a name or length is not the one that was written.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void visit(std::string_view name, std::vector<float>& values) = 0;
  virtual void visit(std::string_view name, std::vector<std::uint8_t>& bytes) = 0;
  virtual void visit(std::string_view name, std::uint64_t& value) = 0;
};

}  // namespace sotto
