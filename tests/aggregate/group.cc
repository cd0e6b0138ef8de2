#include "tests/aggregate/group.h"
#include "sotto/aggregate/recipe.h"

#include <algorithm>
#include <atomic>

namespace sotto::test {
namespace {

class Reader final : public StateVisitor {
 public:
  void visit(std::string_view name, std::vector<float>& values) override { state.floats[std::string(name)] = values; }
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override {
    state.bytes[std::string(name)] = bytes;
  }
  void visit(std::string_view name, std::uint64_t& value) override { state.numbers[std::string(name)] = value; }
  State state;
};

}  // namespace

Layout sample_layout() {
  Layout layout;
  layout.append("conv.weight", {4, 3, 5, 5});
  layout.append("conv.bias", {4});
  layout.append("fc.weight", {10, 37});
  layout.append("fc.bias", {10});
  return layout;
}

std::vector<BucketPlan> sample_buckets() { return plan_buckets(sample_layout(), 1200); }

std::vector<float> sample_gradient(const Layout& layout, int rank, int step) {
  std::vector<float> values(layout.size());
  Philox random(77, Purpose::test, static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(step));
  for (const Segment& segment : layout.segments()) {
    for (std::size_t i = 0; i < segment.numel(); ++i) values[segment.offset + i] = static_cast<float>(random.normal());
  }
  return values;
}

double sample_rate(int step) { return step % 2 == 0 ? 0.1 : 0.025; }

void average_all(Aggregator& aggregator, std::span<const BucketPlan> buckets, std::vector<float>& values, int step,
                 Communicator& communicator, std::uint64_t seed) {
  Timings timings;
  const Key key{seed, static_cast<std::uint16_t>(communicator.rank()), 0, static_cast<std::uint32_t>(step)};
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    Bucket bucket{std::span(values).subspan(buckets[b].range.begin, buckets[b].range.size()), &buckets[b].layout,
                  static_cast<std::uint16_t>(b)};
    aggregator.average(bucket, key, {static_cast<std::uint64_t>(step), sample_rate(step)}, communicator, timings);
  }
}

State state_of(Aggregator& aggregator) {
  Reader reader;
  aggregator.visit_state(reader);
  return std::move(reader.state);
}

State state_of(VectorAverager& averager) {
  Reader reader;
  averager.visit_state(reader);
  return std::move(reader.state);
}

State state_of(Memory& memory) {
  Reader reader;
  memory.visit_state(reader);
  return std::move(reader.state);
}

void restore(Aggregator& aggregator, const State& state) {
  Restorer restorer(state);
  aggregator.visit_state(restorer);
}

void restore(Memory& memory, const State& state) {
  Restorer restorer(state);
  memory.visit_state(restorer);
}

void restore(VectorAverager& averager, const State& state) {
  Restorer restorer(state);
  averager.visit_state(restorer);
}

bool resumes(int ranks, const std::string& aggregator, const std::string& method,
             const std::vector<BucketPlan>& buckets) {
  std::atomic<bool> same = true;
  run_threads(ranks, std::chrono::seconds(20), [&](Communicator& communicator) {
    const auto whole = make_aggregator(read_recipe(method, aggregator), buckets, communicator);
    const auto resumed = make_aggregator(read_recipe(method, aggregator), buckets, communicator);
    for (int step = 0; step < 5; ++step) {
      auto values = sample_gradient(sample_layout(), communicator.rank(), step);
      auto again = values;
      average_all(*whole, buckets, values, step, communicator);
      if (step == 1) restore(*resumed, state_of(*whole));
      if (step <= 1) continue;
      average_all(*resumed, buckets, again, step, communicator);
      if (values != again) same = false;
    }
    if (state_of(*whole) != state_of(*resumed)) same = false;
  });
  return same;
}

void replace_body(std::span<std::byte> buffer, const std::function<void(std::span<std::byte>)>& change) {
  const MessageView view = MessageView::parse(buffer);
  Message again;
  const auto body = again.begin(view.body().size());
  std::ranges::copy(view.body(), body.begin());
  change(body);
  again.finish(view.header(), body.size());
  std::ranges::copy(again.bytes(), buffer.begin());
}

}  // namespace sotto::test
