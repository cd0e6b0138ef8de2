#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/algorithm/server/server.h"
#include "sotto/optim/optimiser.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto::test {

inline Layout some_layout() {
  Layout layout;
  layout.append("first", {20});
  layout.append("second", {3, 5});
  return layout;
}
inline std::vector<BucketPlan> some_buckets() { return plan_buckets(some_layout(), 64); }

// A server, and workers; each worker holds the model that the server sent it last.
class Group {
 public:
  explicit Group(const ServerPlan& plan, const char* down = "f32", const std::string& optimiser = "sgd(momentum=0)",
                 float start = 0)
      : plan_(plan),
        buckets_(some_buckets()),
        shard_(share_out(buckets_, 1).front()),
        codec_(make_codec(read_stages("f32"))),
        down_(read_stages(down), nullptr, buckets_),
        optimiser_(make_optimiser(test::optimiser(optimiser), some_layout())),
        server_(plan, 0, shard_, make_codec(read_stages("f32")), Downlink(read_stages(down), nullptr, buckets_), 1, 0,
                [this](int to, std::span<const std::byte> bytes) { answer(to, bytes); }) {
    workers_.resize(static_cast<std::size_t>(plan.ranks));
    for (Worker& worker : workers_) worker.model.resize(size(), start);
    server_.begin(std::vector<std::uint64_t>(workers_.size()), workers_[0].model, *optimiser_);
  }

  std::size_t size() const { return 256; }
  // Sends a gradient of worker `rank` that is `value` in every element.
  void gradient(int rank, float value, double lr = 1, std::uint64_t stop = ServerNote::never, double loss = 0) {
    Worker& worker = of(rank);
    for (const Shard::Part& part : shard_.parts()) {
      std::vector<float> values(part.own.size());
      for (const Segment& segment : part.plan.layout.segments()) {
        std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(segment.offset), segment.numel(), value);
      }
      send(rank, part.index, values);
    }
    note(rank, {.kind = ServerNote::Kind::gradient,
                .step = worker.step,
                .version = worker.version,
                .stop = stop,
                .rate = lr,
                .loss = loss});
  }
  void send(int rank, std::uint16_t bucket, std::vector<float>& values) {
    const Range whole{0, values.size()};
    Message message;
    codec_->encode({values, &buckets_[bucket].layout, bucket},
                   {1, static_cast<std::uint16_t>(rank), 0, static_cast<std::uint32_t>(of(rank).step)}, {}, {&whole, 1},
                   {&message, 1});
    take(rank, message.bytes());
  }
  void note(int rank, const ServerNote& note) {
    std::vector<std::byte> bytes(ServerNote::bytes);
    write_note(note, bytes);
    take(rank, bytes);
  }
  void rest(int rank) { note(rank, {.kind = ServerNote::Kind::rest, .step = of(rank).step}); }

  void take(int rank, std::span<const std::byte> mail) { server_.take(rank, mail, *optimiser_); }
  Server& server() { return server_; }
  // steps() is the number of answers that a worker got; the others tell what it got with the last one.
  std::uint64_t steps(int rank) { return of(rank).step; }
  std::uint64_t stop(int rank) { return of(rank).stop; }
  std::uint64_t made(int rank) { return of(rank).made; }
  std::uint64_t version(int rank) { return of(rank).version; }
  float value(int rank) { return of(rank).model[buckets_[0].range.begin]; }
  const std::vector<float>& model(int rank) { return of(rank).model; }
  std::vector<float> carried() {
    Store store;
    server_.visit_state(store);
    return store.floats.at("carried");
  }
  float servers_value() { return server_.model()[0]; }

 private:
  struct Worker {
    std::vector<float> model;
    std::uint64_t step = 0, version = 0, stop = ServerNote::never, made = 0;
  };
  Worker& of(int rank) { return workers_[static_cast<std::size_t>(rank)]; }
  void answer(int to, std::span<const std::byte> bytes) {
    const ServerNote note = read_note(bytes, 0);
    Worker& worker = of(to);
    worker.stop = note.stop;
    worker.made = note.made;
    if (note.kind != ServerNote::Kind::model) return;
    EXPECT_EQ(note.step, worker.step);
    down_.decode(shard_, bytes.subspan(ServerNote::bytes), {.step = static_cast<std::uint32_t>(worker.step)},
                 worker.model);
    worker.version = note.version;
    ++worker.step;
  }

  ServerPlan plan_;
  std::vector<BucketPlan> buckets_;
  Shard shard_;
  std::unique_ptr<Codec> codec_;
  Downlink down_;
  std::unique_ptr<Optimiser> optimiser_;
  std::vector<Worker> workers_;
  Server server_;
};

inline ServerPlan plan(ServerPlan::Mode mode, int ranks, std::size_t gradients = 0) {
  ServerPlan plan{.mode = mode, .ranks = ranks};
  plan.quorum = gradients == 0 ? plan.workers() : gradients;
  return plan;
}

}  // namespace sotto::test
