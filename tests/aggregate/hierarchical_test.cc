#include "sotto/aggregate/hierarchical.h"
#include "sotto/codec/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "sotto/aggregate/owners.h"
#include "sotto/aggregate/scheduled_aggregator.h"
#include "tests/aggregate/group.h"
#include "tests/support/phases.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_buckets, test::sample_gradient, test::sample_layout,
    test::state_of;

struct Shape {
  int ranks, group;
};
const std::vector<Shape> shapes{{1, 1}, {2, 1}, {2, 2}, {4, 2}, {6, 2}, {6, 3}, {8, 4}, {9, 3}};

std::string asked(const std::string& inner, const std::string& outer, int group) {
  return "hierarchical(inner=" + inner + ", outer=" + outer + ", group=" + std::to_string(group) + ")";
}

using Means = std::vector<std::vector<std::vector<float>>>;  // [rank][step]

Means run(int ranks, const std::string& aggregator, const std::string& method, int steps,
          std::vector<test::State>* states = nullptr) {
  const auto buckets = sample_buckets();
  Means means(static_cast<std::size_t>(ranks));
  if (states != nullptr) states->resize(static_cast<std::size_t>(ranks));
  run_threads(ranks, 30s, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto made = make_aggregator(read_recipe(method, aggregator), buckets, communicator);
    for (int step = 0; step < steps; ++step) {
      auto values = sample_gradient(sample_layout(), communicator.rank(), step);
      average_all(*made, buckets, values, step, communicator);
      means[rank].push_back(std::move(values));
    }
    if (states != nullptr) (*states)[rank] = state_of(*made);
  });
  return means;
}

void expect_same_bits(const Means& means) {
  for (const auto& of_rank : means) {
    for (std::size_t step = 0; step < of_rank.size(); ++step) {
      const auto& first = means[0][step];
      ASSERT_EQ(0, std::memcmp(of_rank[step].data(), first.data(), first.size() * sizeof(float))) << "step " << step;
    }
  }
}

std::vector<double> exact_mean(int ranks, int steps) {
  std::vector<double> mean(sample_layout().size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (int step = 0; step < steps; ++step) {
      const auto values = sample_gradient(sample_layout(), rank, step);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += values[i] / static_cast<double>(ranks);
    }
  }
  return mean;
}

TEST(Hierarchical, IsTheExactMeanWhereTheCodecIsExact) {
  for (const auto& [ranks, group] : shapes) {
    for (const auto& [inner, outer] : std::vector<std::pair<std::string, std::string>>{
             {"all_reduce", "auto"}, {"gather", "scatter_reduce"}, {"scatter_reduce", "gather"}}) {
      SCOPED_TRACE(asked(inner, outer, group) + " on " + std::to_string(ranks));
      const Means means = run(ranks, asked(inner, outer, group), "none", 1);
      expect_same_bits(means);
      const auto wanted = exact_mean(ranks, 1);
      for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(means[0][0][i], wanted[i], 2e-6);
    }
  }
}

// A group of one rank offers that rank's gradient, and its one shard is the whole vector.
TEST(Hierarchical, GroupsOfOneAreTheOuterAggregatorAlone) {
  for (const char* outer : {"gather", "scatter_reduce", "sparse"}) {
    const Means means = run(3, asked("all_reduce", outer, 1), "ef | topk(0.1)", 3);
    EXPECT_EQ(means, run(3, outer, "ef | topk(0.1)", 3)) << outer;
  }
}

// The sum of all gradients is what was applied and what the memories of the shards still hold.
TEST(Hierarchical, MemoryIsTheGroupsAndLosesNothing) {
  const auto buckets = sample_buckets();
  const int steps = 3;
  for (const auto& [ranks, group] : shapes) {
    for (const auto& [outer, method] :
         std::vector<std::pair<const char*, const char*>>{{"gather", "ef | topk(0.1)"},
                                                          {"gather", "ef | qsgd(bits=4)"},
                                                          {"sparse", "ef | topk(0.1) | int8"},
                                                          {"gather", "ef | svd(rank=1) | atomo(s=1)"}}) {
      SCOPED_TRACE(asked("all_reduce", outer, group) + ", " + method + " on " + std::to_string(ranks));
      std::vector<test::State> states;
      const Means means = run(ranks, asked("all_reduce", outer, group), method, steps, &states);
      expect_same_bits(means);
      std::vector<double> found(sample_layout().size());
      for (const auto& mean : means[0]) {
        for (std::size_t i = 0; i < found.size(); ++i) found[i] += mean[i];
      }
      std::size_t held = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& memory = states[static_cast<std::size_t>(rank)].floats.at("memory.ef");
        held += memory.size();
        std::size_t at = 0;
        for (std::size_t b = 0; b < buckets.size(); ++b) {
          const auto contract = make_codec(read_recipe(method).stages)->contract(buckets[b].layout);
          const auto chunks = cut_chunks(buckets[b].layout, contract, group);
          const Range own = chunks[static_cast<std::size_t>(chunk_of(rank % group, static_cast<int>(b), group))];
          for (std::size_t i = own.begin; i < own.end; ++i) {
            found[buckets[b].range.begin + i] += memory[at++] * static_cast<double>(group) / ranks;
          }
        }
        EXPECT_EQ(at, memory.size());
      }
      EXPECT_EQ(held, sample_layout().size() * static_cast<std::size_t>(ranks / group)) << "once a group";
      const auto wanted = exact_mean(ranks, steps);
      for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-4) << i;
    }
  }
}

// Wraps a communicator and counts the bytes that go to each peer.
class Tally final : public Communicator {
 public:
  explicit Tally(Communicator& inner)
      : Communicator(inner.rank(), inner.size(), inner.deadline()),
        inner_(inner),
        to(static_cast<std::size_t>(inner.size())) {}
  std::string_view name() const override { return "tally"; }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    for (const Send& send : sends) to[static_cast<std::size_t>(send.peer)] += send.data.size();
    inner_.exchange(sends, recvs);
  }
  std::unique_ptr<Communicator> do_clone() override { return inner_.clone(); }

 private:
  Communicator& inner_;

 public:
  std::vector<std::size_t> to;
};

// The formula of docs/algorithms/hierarchical.md, for one bucket whose length divides evenly among the ranks.
TEST(Hierarchical, SendsShardsAloneBetweenGroups) {
  Layout layout;
  layout.append("w", {96, 100});
  const auto buckets = plan_buckets(layout, 1U << 20);
  const std::size_t n = 9600;
  for (const auto& [ranks, group] : shapes) {
    if (n / 16 % static_cast<std::size_t>(group) != 0) continue;
    run_threads(ranks, 30s, [&, ranks = ranks, group = group](Communicator& communicator) {
      Tally tally(communicator);
      const auto made =
          make_aggregator(read_recipe("int8(block=100)", asked("all_reduce", "gather", group)), buckets, tally);
      std::vector<float> values(layout.size(), 1.0F);
      average_all(*made, buckets, values, 0, tally);
      const auto l = static_cast<std::size_t>(group);
      const std::size_t shard = n / l, message = 32 + shard + 4 * ((shard + 99) / 100);
      std::size_t inside = 0, between = 0;
      for (int peer = 0; peer < ranks; ++peer) {
        (peer / group == communicator.rank() / group ? inside : between) += tally.to[static_cast<std::size_t>(peer)];
      }
      EXPECT_EQ(between, (static_cast<std::size_t>(ranks / group) - 1) * message);
      EXPECT_EQ(inside, 2 * 4 * n * (l - 1) / l + 4 * shard * (l - 1));
    });
  }
}

TEST(Hierarchical, ResumesToTheSameBits) {
  for (const char* method : {"ef | topk(0.1) | qsgd(bits=4)", "momentum | topk(0.1)", "svd(rank=1) | atomo(s=1)"}) {
    for (const char* outer : {"gather", "auto", "scatter_reduce"}) {
      EXPECT_TRUE(test::resumes(6, asked("all_reduce", outer, 2), method, sample_buckets())) << method << ", " << outer;
    }
  }
}

// Dense steps keep memories of the same shards as the steps that follow them.
TEST(Hierarchical, TakesOverFromDenseSteps) {
  const auto buckets = sample_buckets();
  const auto other =
      test::read_phases({{0, "ef | f32", "auto"}, {2, "ef | topk(0.1)", asked("all_reduce", "gather", 2)}});
  EXPECT_THROW(check_phases(other, buckets), ConfigError);
  const auto first = exact_mean(4, 1), both = exact_mean(4, 2);
  for (const char* inner : {"all_reduce", "scatter_reduce", "gather"}) {  // which sums gradients, and has no memory
    SCOPED_TRACE(inner);
    const auto phases = start_after(2, test::read_phases("momentum | topk(0.1)", asked(inner, "gather", 2)));
    EXPECT_EQ(phases.at(0).recipe.aggregator.text(), asked(inner, "auto", 2));
    check_phases(phases, buckets);
    run_threads(4, 20s, [&](Communicator& communicator) {
      ScheduledAggregator scheduled(phases, buckets, communicator.rank(), communicator.size(), nullptr);
      for (int step = 0; step < 4; ++step) {
        scheduled.enter(static_cast<std::uint64_t>(step));
        const auto before = state_of(scheduled.current()).floats;
        auto values = sample_gradient(sample_layout(), communicator.rank(), step);
        average_all(scheduled.current(), buckets, values, step, communicator);
        const auto& u = before.at("memory.momentum.u");
        EXPECT_EQ(std::ranges::all_of(u, [](float value) { return value == 0; }), step == 0) << step;
        for (std::size_t i = 0; i < values.size() && step < 2; ++i) {  // the momentum of the mean of all ranks
          ASSERT_NEAR(values[i], step == 0 ? first[i] : both[i] - first[i] + 0.9 * first[i], 4e-6) << i;
        }
      }
    });
  }
}

// Errors name ranks by their number in the whole job, and the gradient stays as it was.
TEST(Hierarchical, ABadMessageBetweenGroupsLeavesTheGradient) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  run_threads(4, 10s, [&](Communicator& group) {
    // In the first step of rank 1, exchange 0 is a sum within the group, and exchange 1 the messages between groups.
    test::Spoilt communicator(group, [&](int exchange, std::span<Recv> arrived) {
      if (group.rank() == 1 && exchange == 1) arrived[0].buffer[40] ^= std::byte{4};
    });
    const auto made =
        make_aggregator(read_recipe("ef | topk(0.1)", asked("all_reduce", "gather", 2)), buckets, communicator);
    const auto gradient = sample_gradient(sample_layout(), group.rank(), 7);
    auto values = gradient;
    if (group.rank() != 1) {
      try {
        average_all(*made, buckets, values, 7, communicator);
      } catch (const CommError&) {  // rank 1 is gone
      }
      return;
    }
    const auto text = message_of([&] { average_all(*made, buckets, values, 7, communicator); });
    EXPECT_NE(text.find("rank 1: message of rank 3 at step 7"), std::string::npos) << text;
    EXPECT_EQ(values, gradient);
  });
}

TEST(Hierarchical, RefusesWhatDoesNotFit) {
  const auto buckets = sample_buckets();
  const auto refusal = [&](const std::string& aggregator, const std::string& method) {
    return message_of([&] { make_aggregator(read_recipe(method, aggregator), buckets, 0, 6); });
  };
  const auto expect = [&](const std::string& aggregator, const std::string& method, const char* what) {
    const std::string text = refusal(aggregator, method);
    EXPECT_NE(text.find(what), std::string::npos) << aggregator << ", " << method << ": " << text;
  };
  expect("hierarchical", "none", "hierarchical(group=4)");
  expect("hierarchical(group=4)", "none", "6 ranks do not fall into groups of 4");
  expect("hierarchical(group=2, outer=all_reduce)", "topk(0.1)", "outer=all_reduce: messages of `topk");
  expect("hierarchical(group=2, inner=vote)", "none", "inner=vote: ");
  expect("hierarchical(group=2, outer=gather)", "momentum(mean=true) | f32", "outer=gather: `momentum(mean=true)`");
  expect("hierarchical(group=2, outer=hierarchical)", "none", "outer: unknown aggregator `hierarchical`");
  expect("hierarchical(group=2, outer=gahter)", "none", "did you mean `gather`");
  expect("hierarchical(groups=2)", "none", "did you mean `group`");
  expect("hierarchical(group=-1)", "none", "group must be");
  expect("hierarchical | gather", "none", "an aggregator is a single call");
  expect("gather(2)", "none", "gather");
  expect("hierarchical(group=2)", "power(2)", "is an aggregator itself");
}

TEST(Hierarchical, TheSizeOfGroupsIsSaidOnce) {
  const auto read = [](const char* text) { return read_aggregator(parse_expression("aggregator", text)); };
  EXPECT_EQ(with_group(read("gather"), 4).text(), "gather");
  EXPECT_EQ(with_group(read("hierarchical"), 4).text(), asked("all_reduce", "auto", 4));
  EXPECT_EQ(with_group(read("hierarchical(group=4, outer=gather)"), 4).text(), asked("all_reduce", "gather", 4));
  EXPECT_THROW(with_group(read("hierarchical(group=4)"), 2), ConfigError);
  EXPECT_EQ(group_of(read("hierarchical(group=4)")), 4);
  EXPECT_EQ(group_of(read("hierarchical")), 0);
  EXPECT_EQ(group_of(read("auto")), std::nullopt);
  EXPECT_FALSE(dense_aggregator(read("scatter_reduce")));
}

TEST(Hierarchical, SaysWhatItChose) {
  run_threads(4, 20s, [](Communicator& communicator) {
    const auto made =
        make_aggregator(read_recipe("ef | topk(0.1)", asked("all_reduce", "auto", 2)), sample_buckets(), communicator);
    auto values = sample_gradient(sample_layout(), communicator.rank(), 0);
    average_all(*made, sample_buckets(), values, 0, communicator);
    const std::string remark = made->remark();
    EXPECT_EQ(remark.find("aggregator: hierarchical, 2 groups of 2 ranks: all_reduce inside, gather between them ("),
              0U)
        << remark;
  });
}

}  // namespace
}  // namespace sotto
