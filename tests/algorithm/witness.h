#pragma once

#include <functional>
#include <utility>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/communicator.h"
#include "tests/algorithm/quadratic.h"

namespace sotto::test {

// A worker that repeats each of its calls to `told`, once the call is over.
class Told final : public Worker {
 public:
  Told(int rank, BucketCalls told) : inner_(rank), told_(std::move(told)) {}
  std::span<float> parameters() override { return inner_.parameters(); }
  std::span<float> gradient() override { return inner_.gradient(); }
  std::span<const BucketPlan> buckets() const override { return inner_.buckets(); }
  Optimiser& optimiser() override { return inner_.optimiser(); }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    const auto both = [](const auto& call, const auto& tell) {
      return [&](std::size_t bucket) {
        call(bucket);
        tell(bucket);
      };
    };
    return inner_.compute_gradient(
        step, {.needed = both(calls.needed, told_.needed), .ready = both(calls.ready, told_.ready)});
  }

 private:
  Quadratic inner_;
  BucketCalls told_;
};

// Calls `hear` with the length of each message before the message leaves.
class Overheard final : public Communicator {
 public:
  Overheard(Communicator& inner, std::function<void(std::size_t bytes)> hear)
      : Communicator(inner.rank(), inner.size(), inner.deadline()), inner_(inner), hear_(std::move(hear)) {}
  std::string_view name() const override { return inner_.name(); }

 private:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    if (!sends.empty()) hear_(sends.front().data.size());
    inner_.exchange(sends, recvs);
  }
  std::unique_ptr<Communicator> do_clone() override { return inner_.clone(); }

  Communicator& inner_;
  std::function<void(std::size_t)> hear_;
};

}  // namespace sotto::test
