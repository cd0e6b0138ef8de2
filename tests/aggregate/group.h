#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/aggregate/vector_averager.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/support/message_of.h"

namespace sotto::test {

Layout sample_layout();
std::vector<BucketPlan> sample_buckets();  // of sample_layout(), in several buckets
// Normally distributed; padding is zero.
std::vector<float> sample_gradient(const Layout& layout, int rank, int step);

double sample_rate(int step);  // changes from step to step

// One step over all buckets.
void average_all(Aggregator& aggregator, std::span<const BucketPlan> buckets, std::vector<float>& values, int step,
                 Communicator& communicator, std::uint64_t seed = 5);

// Everything that a component remembers, by name. state_of() reads it, restore() writes it back.
struct State {
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<std::uint8_t>> bytes;
  std::map<std::string, std::uint64_t> numbers;
  bool operator==(const State&) const = default;
};
// Gives a component what it remembers.
class Restorer final : public StateVisitor {
 public:
  explicit Restorer(const State& state) : state_(state) {}
  void visit(std::string_view name, std::vector<float>& values) override {
    values = state_.floats.at(std::string(name));
  }
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override {
    bytes = state_.bytes.at(std::string(name));
  }
  void visit(std::string_view name, std::uint64_t& value) override { value = state_.numbers.at(std::string(name)); }

 private:
  const State& state_;
};
State state_of(Aggregator& aggregator);
State state_of(Memory& memory);
State state_of(VectorAverager& averager);
void restore(Aggregator& aggregator, const State& state);
void restore(Memory& memory, const State& state);
void restore(VectorAverager& averager, const State& state);
// Whether an aggregator that takes over the state of another one after two steps continues as that one does, to the
// last bit.
bool resumes(int ranks, const std::string& aggregator, const std::string& method,
             const std::vector<BucketPlan>& buckets);

// Wraps a communicator so that a test can spoil this rank's exchanges. After each exchange it calls `after` with the
// number of the exchange since the last reset(), and with what arrived; `after` may damage that, or throw.
class Spoilt final : public Communicator {
 public:
  using After = std::function<void(int exchange, std::span<Recv> arrived)>;
  Spoilt(Communicator& inner, After after)
      : Communicator(inner.rank(), inner.size(), inner.deadline()), inner_(inner), after_(std::move(after)) {}
  std::string_view name() const override { return "spoilt"; }
  void reset() { exchanges_ = 0; }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    inner_.exchange(sends, recvs);
    after_(exchanges_++, recvs);
  }
  std::unique_ptr<Communicator> do_clone() override { return inner_.clone(); }

 private:
  Communicator& inner_;
  After after_;
  int exchanges_ = 0;
};

// Lets `change` damage the body of the message in `buffer`, and seals the message again as its sender would.
void replace_body(std::span<std::byte> buffer, const std::function<void(std::span<std::byte>)>& change);

}  // namespace sotto::test
