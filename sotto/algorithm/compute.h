#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sotto/algorithm/algorithm.h"

namespace sotto {

// Functions that all algorithms share.

// Replaces the gradient of this bucket by what the optimiser offers in its place. Once per step and bucket, when the
// gradient is finished.
void offer_in_place(Worker& worker, const BucketPlan& bucket);

// Computes the optimiser's step for the stretch of the parameters that begins at `begin` and has x.size() elements, and
// moves x as far. x is part of a vector of this rank's own, or is that stretch itself; no other parameters change. If x
// equals the parameters, it ends at the same bits as they would. So weight decay, and a mean of iterates, apply to the
// model even where x is only a share of it (push-sum). Call it once per step and stretch, when that gradient is
// finished. `scratch` is overwritten.
void step_stretch(Worker& worker, std::span<float> x, std::size_t begin, double lr, std::vector<float>& scratch);
// The same for a whole vector, bucket by bucket.
void step_all(Worker& worker, std::span<float> x, double lr, std::vector<float>& scratch);

// Calls f with every vector of floats.
template <class F>
class EachVector final : public StateVisitor {
 public:
  explicit EachVector(F f) : f_(std::move(f)) {}
  void visit(std::string_view /*name*/, std::vector<float>& values) override { f_(values); }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& /*value*/) override {}

 private:
  F f_;
};

// quotient = x / weight.
void divide(std::span<const float> x, double weight, std::span<float> quotient);
// x = the sum of all ranks' x over the sum of their weights, on every rank; weight = 1. Collective. A rank that does
// not `count` has no model yet.
void average_by_weight(std::span<float> x, double& weight, Communicator& communicator, bool counts = true);
// The same where all weights are 1.
void average_members(std::span<float> x, Communicator& communicator, bool counts);

}  // namespace sotto
