#include "sotto/aggregate/aggregators.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sotto/core/error.h"
#include "tests/aggregate/group.h"
#include "tests/aggregate/mirror.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::average_all, test::message_of, test::sample_buckets, test::sample_gradient, test::sample_layout;

// The recurrence of make_fetch in doubles, on the vector itself: `fetch` must give this where the identity stands in
// place of a sketch.
class Reference {
 public:
  std::vector<double> step(const std::vector<double>& mean, double momentum, double ratio, bool masking) {
    const Layout layout = sample_layout();
    std::vector<double> out(layout.size());
    for (const Segment& segment : layout.segments()) {
      std::vector<std::size_t> order;
      for (std::size_t i = segment.offset; i < segment.range().end; ++i) {
        u_[i] = momentum * u_[i] + mean[i];
        e_[i] += u_[i];
        order.push_back(i);
      }
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return std::abs(e_[a]) > std::abs(e_[b]); });
      order.resize(static_cast<std::size_t>(std::ceil(ratio * static_cast<double>(segment.numel()) - 1e-9)));
      for (const std::size_t i : order) {
        out[i] = e_[i];
        e_[i] = 0;
        if (masking && ratio < 1) u_[i] = 0;
      }
    }
    return out;
  }

 private:
  std::vector<double> u_ = std::vector<double>(sample_layout().size()), e_ = u_;
};

TEST(Fetch, IsMomentumAndErrorInTheSketch) {
  const auto buckets = sample_buckets();
  // Where each step moves every element, `fetch` is momentum after averaging.
  struct Published {
    const char* method;
    double ratio;
    bool masking;
  };
  for (const Published& of : {Published{"fetch(0.1, 0.5)", 0.1, true},
                              {"fetch(ratio=0.1, momentum=0.5, masking=false)", 0.1, false},
                              {"fetch(1, 0.5)", 1, true}}) {
    for (const int ranks : {1, 2, 3}) {
      run_threads(ranks, 20s, [&](Communicator& communicator) {
        const auto fetch = make_aggregator(read_recipe(of.method), buckets, communicator);
        EXPECT_EQ(fetch->name(), "fetch");
        Reference reference;
        for (int step = 0; step < 6; ++step) {
          auto values = sample_gradient(sample_layout(), communicator.rank(), step);
          average_all(*fetch, buckets, values, step, communicator);
          std::vector<double> mean(values.size());
          for (int rank = 0; rank < ranks; ++rank) {
            const auto one = sample_gradient(sample_layout(), rank, step);
            for (std::size_t i = 0; i < one.size(); ++i) mean[i] += one[i] / static_cast<double>(ranks);
          }
          const auto wanted = reference.step(mean, 0.5, of.ratio, of.masking);
          for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(values[i], wanted[i], 1e-4) << step << " " << i;
        }
      });
    }
  }
}

TEST(Fetch, LeavesTheSameBitsOnEveryRank) {
  const auto buckets = sample_buckets();
  for (const char* method : {"fetch", "fetch | hadamard(8)", "fetch | dct(8)"}) {
    std::vector<std::vector<float>> ends(4);
    run_threads(4, 20s, [&](Communicator& communicator) {
      const auto fetch = make_aggregator(read_recipe(method), buckets, communicator);
      for (int step = 0; step < 3; ++step) {
        auto values = sample_gradient(sample_layout(), communicator.rank(), step);
        average_all(*fetch, buckets, values, step, communicator);
        ends[static_cast<std::size_t>(communicator.rank())] = values;
      }
    });
    for (const auto& end : ends) EXPECT_EQ(0, std::memcmp(end.data(), ends[0].data(), end.size() * sizeof(float)));
    auto cleared = ends[0];
    sample_layout().clear_padding(cleared);
    EXPECT_EQ(cleared, ends[0]);
  }
}

TEST(Fetch, SendsAnAllReduceOfTheForm) {
  const auto buckets = sample_buckets();
  run_threads(3, 20s, [&](Communicator& communicator) {
    const auto fetch = make_aggregator(read_recipe("fetch | dct(8)"), buckets, communicator);
    auto values = sample_gradient(sample_layout(), communicator.rank(), 0);
    average_all(*fetch, buckets, values, 0, communicator);
    std::uint64_t wanted = 0;
    for (const BucketPlan& plan : buckets) {
      wanted += communicator.all_reduce_bytes(make_codec(read_stages("dct(8)"))->linear_count(plan.layout), DType::f32);
    }
    EXPECT_EQ(communicator.traffic().bytes_sent, wanted);
  });
}

TEST(Fetch, ResumesToTheSameBits) {
  for (const char* method : {"fetch(0.1)", "fetch(0.1) | dct(8)"}) {
    EXPECT_TRUE(test::resumes(3, "auto", method, sample_buckets())) << method;
  }
}

TEST(Fetch, AFailedExchangeLosesNothing) {
  const auto buckets = plan_buckets(sample_layout(), 1U << 20);
  test::Mirror broken(3, [](std::span<std::byte>) { throw CommError("the cable is out"); });
  const auto fetch = make_aggregator(read_recipe("fetch"), buckets, broken);
  const auto before = test::state_of(*fetch);
  auto values = sample_gradient(sample_layout(), 0, 0);
  EXPECT_THROW(average_all(*fetch, buckets, values, 0, broken), CommError);
  EXPECT_EQ(test::state_of(*fetch), before);
  EXPECT_EQ(values, sample_gradient(sample_layout(), 0, 0));
}

TEST(Fetch, RefusesWhatDoesNotFit) {
  const auto refusal = [&](const char* method) {
    return message_of([&] { make_aggregator(read_recipe(method), sample_buckets(), 0, 2); });
  };
  EXPECT_NE(refusal("ef | fetch").find("no memory may stand before it"), std::string::npos);
  EXPECT_NE(refusal("velocity | fetch").find("no memory may stand before it"), std::string::npos);
  EXPECT_NE(refusal("fetch | f16").find("must end in f32"), std::string::npos);
  EXPECT_NE(refusal("fetch | topk(0.1)").find("what follows `fetch` is summed on the way"), std::string::npos);
  EXPECT_NE(refusal("fetch(ratio=2)").find("ratio must be in (0, 1]"), std::string::npos);
  EXPECT_NE(refusal("fetsch").find("did you mean `fetch`"), std::string::npos);
}

}  // namespace
}  // namespace sotto
