#pragma once

#include <functional>
#include <utility>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/communicator.h"
#include "tests/algorithm/quadratic.h"

namespace sotto::test {

// Tells what a worker calls, when the call is over.
class Told final : public Quadratic {
 public:
  Told(int rank, BucketCalls told) : Quadratic(rank), told_(std::move(told)) {}
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    const auto both = [](const auto& call, const auto& tell) {
      return [&](std::size_t bucket) {
        call(bucket);
        tell(bucket);
      };
    };
    return Quadratic::compute_gradient(
        step, {.needed = both(calls.needed, told_.needed), .ready = both(calls.ready, told_.ready)});
  }

 private:
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
