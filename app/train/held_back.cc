#include "app/train/held_back.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "sotto/core/state.h"

namespace sotto {
namespace {

// Buckets are held one after the other, and lie in the model from its end to its beginning.
class HeldBack final : public StateVisitor {
 public:
  HeldBack(std::string_view memory, std::span<const BucketPlan> buckets, std::vector<float>& values)
      : name_(fmt::format("memory.{}", memory)), buckets_(buckets), values_(values) {}

  void visit(std::string_view name, std::vector<float>& values) override {
    std::size_t size = 0;
    for (const BucketPlan& plan : buckets_) size += plan.range.size();
    const std::string_view last = name.substr(name.rfind('/') + 1);
    if ((last != name_ && last != name_ + ".v") || values.size() != size || found) return;
    found = true;
    auto from = values.begin();
    for (const BucketPlan& plan : buckets_) {
      const auto to = from + static_cast<std::ptrdiff_t>(plan.range.size());
      std::copy(from, to, values_.begin() + static_cast<std::ptrdiff_t>(plan.range.begin));
      from = to;
    }
  }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& /*value*/) override {}

  bool found = false;

 private:
  std::string name_;
  std::span<const BucketPlan> buckets_;
  std::vector<float>& values_;
};

}  // namespace

bool copy_held_back(Algorithm& algorithm, std::string_view memory, std::span<const BucketPlan> buckets,
                    std::vector<float>& values) {
  HeldBack visitor(memory, buckets, values);
  algorithm.visit_state(visitor);
  return visitor.found;
}

}  // namespace sotto
