#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/state.h"

namespace sotto {

// Carries memories, which are vectors of floats that aggregators call memory.*, to their successor: the sum of those of
// all from which it takes, times a share.
class MemoryCarrier final : public StateVisitor {
 public:
  explicit MemoryCarrier(float share) : share_(share) {}

  // `from` has no memory left, and is not to be used again.
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
