#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/state.h"

namespace sotto {

// Values of a component's state, in memory: a visit copies them to here or, after give(), from here. Their memory is
// kept for the next copy of the same state.
class StateCopy final : public StateVisitor {
 public:
  void take() { gives_ = false; }
  void give() { gives_ = true; }

  void visit(std::string_view name, std::vector<float>& values) override { copy(floats_, name, values); }
  void visit(std::string_view name, std::vector<std::uint8_t>& values) override { copy(bytes_, name, values); }
  void visit(std::string_view name, std::uint64_t& value) override { copy(numbers_, name, value); }
  // A borrowed vector, such as a model's parameters, whose length must not change.
  void visit(std::string_view name, std::span<float> values);

  // Visits everything that was taken. The order depends on the names alone.
  void visit_all(StateVisitor& visitor);

 private:
  template <class T>
  using Values = std::map<std::string, T, std::less<>>;
  // FileError, as of a file, if nothing of this name was taken.
  template <class T>
  void copy(Values<T>& kept, std::string_view name, T& value);

  bool gives_ = false;
  Values<std::vector<float>> floats_;
  Values<std::vector<std::uint8_t>> bytes_;
  Values<std::uint64_t> numbers_;
};

}  // namespace sotto
