#pragma once

#include "sotto/codec/stage.h"
#include "sotto/core/options.h"

namespace sotto {

struct ThresholdOptions {
  double value = 0;
  std::string kind = "absolute";
  void visit(OptionVisitor& v) {
    v.option("value", value, "elements of smaller magnitude are not sent", Bounds::at_least(0));
    v.option("kind", kind, "value is a magnitude, or a share (at most 1) of the segment's largest one",
             {"absolute", "relative"});
  }
  // What no single option can be blamed for; empty when there is nothing.
  std::string problem() const {
    return kind == "relative" && value > 1 ? "a relative threshold above 1 would never send anything" : "";
  }
};

// The elements of at least this magnitude, zeros excepted: their number varies, and may be none.
class Threshold final : public Select {
 public:
  using Options = ThresholdOptions;
  explicit Threshold(const ThresholdOptions& options) : options_(options) {}

  std::string sentence() const override { return record_options("threshold", options_); }
  std::size_t limits(std::span<const std::size_t> atoms, std::span<std::size_t> each) const override;
  std::size_t select(std::span<const Group> groups, const Streams& streams, std::span<std::uint32_t> indices,
                     std::span<std::size_t> counts, std::span<float> scales) override;
  Contract contract(std::span<const std::size_t> atoms) const override;

 private:
  bool relative() const { return options_.kind == "relative"; }
  ThresholdOptions options_;
};

}  // namespace sotto
