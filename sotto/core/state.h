#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sotto {

// Visits everything that a component must remember across a restart. The same visit writes a checkpoint or reads one: a
// reading visitor replaces the values, and throws FileError when names or lengths differ from the file's.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void visit(std::string_view name, std::vector<float>& values) = 0;
  virtual void visit(std::string_view name, std::vector<std::uint8_t>& bytes) = 0;
  virtual void visit(std::string_view name, std::uint64_t& value) = 0;
};

// Visits a vector whose length must not change. FileError when a vector of another length was read; `values` then has
// its old length again.
void visit_vector(StateVisitor& visitor, std::string_view name, std::vector<float>& values);

// A rank of an earlier group, and its state, which a reading visitor gives.
struct FormerRank {
  int rank = 0, ranks = 1;  // its number in that group, and the number of ranks there
  StateVisitor* state = nullptr;
};

// Prefixes names, so that `momentum` becomes `SCOPE/momentum`. For owners of several components of one kind.
class ScopedState final : public StateVisitor {
 public:
  ScopedState(StateVisitor& outer, std::string_view scope) : outer_(outer), prefix_(std::string(scope) + "/") {}
  void visit(std::string_view name, std::vector<float>& values) override { outer_.visit(full(name), values); }
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override { outer_.visit(full(name), bytes); }
  void visit(std::string_view name, std::uint64_t& value) override { outer_.visit(full(name), value); }

 private:
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

  StateVisitor& outer_;
  std::string prefix_;
};

// A copy of a component's state in memory. A visit copies the values into this object or, after give(), out of it. The
// memory is reused for the next copy of the same state.
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
  // FileError, as when a file is read, if nothing of this name was taken.
  template <class T>
  void copy(Values<T>& kept, std::string_view name, T& value);

  bool gives_ = false;
  Values<std::vector<float>> floats_;
  Values<std::vector<std::uint8_t>> bytes_;
  Values<std::uint64_t> numbers_;
};

}  // namespace sotto
