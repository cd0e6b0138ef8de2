#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/state.h"

namespace sotto {

// Carries memories to the aggregator that takes over: the sum of the memories of all aggregators passed to take(),
// times `share`. Memories are the vectors of floats that aggregators name memory.*.
class MemoryCarrier final : public StateVisitor {
 public:
  explicit MemoryCarrier(float share) : share_(share) {}

  // Takes the memory of `from`, which must not be used afterwards.
  void take(Aggregator& from);
  void give(Aggregator& to);

  void visit(std::string_view name, std::vector<float>& values) override;
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& /*value*/) override {}

 private:
  float share_;
  bool giving_ = false;
  std::map<std::string, std::vector<float>, std::less<>> kept_;
};

}  // namespace sotto
