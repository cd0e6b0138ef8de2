#pragma once

#include <map>
#include <string>
#include <vector>

#include "sotto/core/state.h"

namespace sotto::test {

// Keeps the state of a visited component by name; while `reading` is set, it writes that state to a component.
class Store final : public StateVisitor {
 public:
  void visit(std::string_view name, std::vector<float>& values) override {
    if (reading) values = floats.at(std::string(name));
    if (!reading) floats[std::string(name)] = values;
  }
  void visit(std::string_view name, std::vector<std::uint8_t>& values) override {
    if (reading) values = bytes.at(std::string(name));
    if (!reading) bytes[std::string(name)] = values;
  }
  void visit(std::string_view name, std::uint64_t& value) override {
    if (reading) value = numbers.at(std::string(name));
    if (!reading) numbers[std::string(name)] = value;
  }

  bool reading = false;
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<std::uint8_t>> bytes;
  std::map<std::string, std::uint64_t> numbers;
};

// Copies the state of one component to another, as a checkpoint would.
template <class Component>
void hand_over(Component& from, Component& to) {
  Store store;
  from.visit_state(store);
  store.reading = true;
  to.visit_state(store);
}

}  // namespace sotto::test
