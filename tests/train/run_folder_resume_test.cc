#include "app/train/folder/run_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/train/identity.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/state_file.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"
#include "tests/train/chain.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {

using test::Chain, test::message_of;

// Sets all floats of a component to a value.
class Fill final : public StateVisitor {
 public:
  explicit Fill(float value) : value_(value) {}
  void visit(std::string_view /*name*/, std::vector<float>& values) override { std::ranges::fill(values, value_); }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& /*value*/) override {}

 private:
  float value_;
};

// Asserts that they all have this value.
class All final : public StateVisitor {
 public:
  explicit All(float value) : value_(value) {}
  void visit(std::string_view name, std::vector<float>& values) override {
    ++vectors;
    EXPECT_EQ(std::ranges::count(values, value_), std::ssize(values)) << name;
  }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& /*value*/) override {}
  int vectors = 0;

 private:
  float value_;
};

// One rank of a group, with error feedback.
struct Member {
  explicit Member(Communicator& communicator)
      : replica(task, make_optimiser(test::optimiser("sgd(momentum=0.9)"), task.layout()),
                plan_buckets(task.layout(), 64), 1, 1, communicator.rank()),
        algorithm(make_algorithm(test::algorithm("sync"), {.phases = {{0, read_recipe("ef | topk(0.5)", "gather")}}},
                                 replica.buckets(), communicator)) {
    task.trained().resize(2);
  }
  Chain task;
  Replica replica;
  std::unique_ptr<Algorithm> algorithm;
};

void write_part(const std::filesystem::path& path, Member& member, RunTotals totals) {
  StateWriter file(path);
  totals.visit_state(file);
  file.add("buffers", member.task.buffers());
  file.add("parameters", member.task.parameters());
  member.replica.visit_state(file);
  member.replica.visit_trained(file);
  member.algorithm->visit_state(file);
  file.finish();
}

TEST(OtherRanks, GoOnWithMeansAndSums) {
  const test::TempFolder temp;
  run_threads(4, std::chrono::seconds(20), [&](Communicator& communicator) {
    Member member(communicator);
    const auto rank = static_cast<float>(communicator.rank());
    std::ranges::fill(member.task.parameters(), rank);
    Fill velocity(0.1F), memory(100 * rank);
    member.replica.visit_state(velocity);
    member.algorithm->visit_state(memory);
    member.task.trained() = {rank, 1};
    write_part(temp.path() / checkpoint::rank_file(communicator.rank()), member, {.seconds = rank, .bytes_sent = 10});
  });
  for (const int ranks : {1, 2, 5}) {
    run_threads(ranks, std::chrono::seconds(20), [&](Communicator& communicator) {
      Member member(communicator);
      RunTotals totals;
      read_other_ranks(temp.path(), 4, communicator.rank(), true, member.replica, *member.algorithm, totals);
      EXPECT_EQ(std::ranges::count(member.task.parameters(), 1.5F), std::ssize(member.task.parameters()));
      All velocity(0.1F), memory(150);
      member.replica.visit_state(velocity);
      member.algorithm->visit_state(memory);
      EXPECT_EQ(velocity.vectors + memory.vectors, 2);
      const bool first = communicator.rank() == 0;
      EXPECT_EQ(member.task.trained(), first ? (Tally{6, 4}) : (Tally{0, 0}));
      EXPECT_EQ(totals.bytes_sent, first ? 40U : 0U);
      EXPECT_EQ(totals.seconds, 3) << "all were at it at the same time";
    });
  }
}

TEST(OtherRanks, AreRefusedWithWhatToDoInstead) {
  TrainOptions options;
  const auto why = [&](const Manifest& manifest) {
    return message_of([&] {
      const checkpoint::Metadata own{{"ranks", "2"}, {"batch-size", "8"}, {"codec", "f16"}, {"seed", "1"}};
      EXPECT_FALSE(require_resumable(read_choices(options), "runs/a/model_step_4", manifest, own, false));
    });
  };
  Manifest manifest;
  manifest.identity = {{"ranks", "4"}, {"batch-size", "4"}, {"codec", "f32"}, {"seed", "1"}};
  EXPECT_NE(why(manifest).find("an older version of sotto wrote it"), std::string::npos);
  manifest.course = "noted";
  EXPECT_EQ(why(manifest), "");
  manifest.identity["seed"] = "7";
  EXPECT_NE(why(manifest).find("it was written with seed 7, this run has 1"), std::string::npos);
  manifest.identity["seed"] = "1";
  options.algorithm = "parameter_server";
  EXPECT_NE(why(manifest).find("`parameter_server` cannot continue with another number"), std::string::npos);
  EXPECT_NE(why(manifest).find("runs/a/model_step_4/model.safetensors"), std::string::npos);
}

TEST(OtherRanks, PartsThatDoNotFitAreRefused) {
  const test::TempFolder temp;
  run_threads(1, std::chrono::seconds(20), [&](Communicator& communicator) {
    Member member(communicator);
    for (const int rank : {0, 1}) write_part(temp.path() / checkpoint::rank_file(rank), member, {});
    RunTotals totals;
    const auto why = [&](int written_by) {
      return message_of(
          [&] { read_other_ranks(temp.path(), written_by, 0, true, member.replica, *member.algorithm, totals); });
    };
    EXPECT_EQ(why(2), "");
    EXPECT_NE(why(3).find("rank_2"), std::string::npos);
    StateWriter other(temp.path() / "rank_2");
    other.add("buffers", std::vector<float>(3));
    other.finish();
    EXPECT_NE(why(3).find("rank_2: section buffers has 3 values, and should have 1"), std::string::npos) << why(3);
  });
}

}  // namespace
}  // namespace sotto
