// AD-PSGD on quadratics whose answer is known, with ranks at any speed, and at its end. Where ranks are to be about as
// fast as each other they wait for each other at a barrier of the test's.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <limits>
#include <numeric>
#include <thread>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/threads.h"
#include "sotto/core/error.h"
#include "tests/algorithm/message_bytes.h"
#include "tests/algorithm/perceptron.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/message_of.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_bytes;
using test::message_of;
using test::Perceptron;
using test::Quadratic;

AlgorithmOptions options_on(const char* topology, const char* codec = "none", bool overlap = true) {
  AlgorithmOptions options;
  options.topology = topology;
  options.codec = codec;
  options.overlap = overlap;
  return options;
}

// Runs `before` in front of each gradient, with the number of the step, and `after` behind it.
class Hooked final : public Worker {
 public:
  Hooked(
      Worker& inner, std::function<void(std::uint64_t)> before, std::function<void()> after = [] {})
      : inner_(inner), before_(std::move(before)), after_(std::move(after)) {}
  std::span<float> parameters() override { return inner_.parameters(); }
  std::span<float> gradient() override { return inner_.gradient(); }
  std::span<const BucketPlan> buckets() const override { return inner_.buckets(); }
  Optimiser& optimiser() override { return inner_.optimiser(); }
  double compute_gradient(std::uint64_t step, const BucketCalls& calls) override {
    before_(step);
    const double loss = inner_.compute_gradient(step, calls);
    after_();
    return loss;
  }

 private:
  Worker& inner_;
  std::function<void(std::uint64_t)> before_;
  std::function<void()> after_;
};

struct Job {
  const char* topology;
  int ranks;
  const char* codec = "none";
};

// The sum of |x - (r + 1)|^2 / 2 is least at the mean of the targets.
TEST(AdPsgd, ComesNearTheLeastSum) {
  for (const Job& job :
       {Job{"1", 1}, {"1", 2}, {"1", 4}, {"3", 8}, {"ring", 4, "f16"}, {"star", 3}, {"star", 7, "bf16"}}) {
    for (const bool overlap : {true, false}) {
      std::vector<double> ends(static_cast<std::size_t>(job.ranks));
      run_threads(job.ranks, 60s, [&](Communicator& communicator) {
        Quadratic worker(communicator.rank());
        const auto algorithm = make_algorithm("test", "ad_psgd", options_on(job.topology, job.codec, overlap),
                                              worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < 900; ++step) {
          algorithm->step(worker, {step, 0.003, false});
          communicator.barrier();
        }
        algorithm->rest();
        ends[static_cast<std::size_t>(communicator.rank())] = worker.parameters()[3];
      });
      double mean = 0;
      for (const double end : ends) mean += end / job.ranks;
      const double target = (job.ranks + 1) / 2.0;
      EXPECT_NEAR(mean, target, 0.1) << job.topology << ", " << job.ranks << ", " << overlap;
      if (overlap) continue;  // how often they exchange depends on time
      for (const double end : ends) EXPECT_NEAR(end, target, 0.4) << job.topology << ", " << job.ranks;
    }
  }
}

// Whoever averages when: all x together move by the sum of all gradients, and where those do not depend on x (curvature
// 0) by what is known beforehand.
TEST(AdPsgd, MovesTheSumBySumsOfGradients) {
  constexpr double lr = 0.01;
  constexpr std::uint64_t steps = 200;
  for (const Job& job : {Job{"1", 1}, {"1", 2}, {"1", 4}, {"3", 8}, {"ring", 4, "f16"}, {"star", 7, "bf16"}}) {
    for (const float curvature : {0.0F, 1.0F}) {
      std::vector<double> sums(static_cast<std::size_t>(job.ranks)), ends = sums;
      run_threads(job.ranks, 60s, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        Quadratic quadratic(communicator.rank(), "sgd(momentum=0)", curvature);
        Hooked worker(
            quadratic, [](std::uint64_t /*step*/) {},
            [&] {
              for (float& value : quadratic.gradient()) value += static_cast<float>(rank + 1);
              sums[rank] += quadratic.gradient()[3];
            });
        const auto algorithm =
            make_algorithm("test", "ad_psgd", options_on(job.topology, job.codec), worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < steps; ++step) algorithm->step(worker, {step, lr, false});
        algorithm->rest();
        ends[rank] = worker.parameters()[3];
      });
      double sum = 0, wanted = 0;
      for (std::size_t r = 0; r < sums.size(); ++r) {
        sum += ends[r];
        wanted -= lr * sums[r];
      }
      EXPECT_NEAR(sum, wanted, 1e-4 * job.ranks) << job.topology << ", " << job.ranks << ", " << curvature;
      if (curvature > 0) continue;
      const double known = -lr * steps * job.ranks * (job.ranks + 1) / 2;
      EXPECT_NEAR(sum, known, 1e-4 * job.ranks) << job.topology << ", " << job.ranks;
    }
  }
}

// One rank stands still behind a third of its steps until all others have made all of theirs.
TEST(AdPsgd, WaitsForNobody) {
  constexpr std::uint64_t steps = 60;
  for (const int slow : {0, 1}) {  // that answers, that asks
    for (const bool overlap : {true, false}) {
      std::latch others_done(3);
      run_threads(4, 60s, [&](Communicator& communicator) {
        Quadratic plain(communicator.rank());
        Hooked worker(plain, [&](std::uint64_t step) {
          if (communicator.rank() == slow && step == steps / 3) others_done.wait();
        });
        const auto algorithm =
            make_algorithm("test", "ad_psgd", options_on("1", "none", overlap), worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < steps; ++step) algorithm->step(worker, {step, 0.01, false});
        if (communicator.rank() != slow) others_done.count_down();
        algorithm->rest();
        if (!overlap && communicator.rank() != slow && communicator.rank() % 2 == 1) {
          EXPECT_EQ(algorithm->exchange_count(), steps);
        }
      });
    }
  }
}

// One rank makes its fourth step when the others have made all that were left, and takes its time from then on.
TEST(AdPsgd, CountsTheStepsOfAllTogether) {
  constexpr std::uint64_t meeting = 20;
  for (const Job& job : {Job{"1", 1}, {"1", 2}, {"1", 4}, {"ring", 8}, {"star", 5}}) {
    for (const char* algorithm : {"ad_psgd", "ad_psgd(every=7)"}) {
      for (const int slow : {0, job.ranks - 1}) {
        const auto all = meeting * static_cast<std::uint64_t>(job.ranks);
        std::atomic<std::uint64_t> made = 0;
        std::vector<std::vector<std::uint64_t>> known(static_cast<std::size_t>(job.ranks));
        run_threads(job.ranks, 60s, [&](Communicator& communicator) {
          const auto rank = static_cast<std::size_t>(communicator.rank());
          Quadratic plain(communicator.rank());
          Hooked worker(
              plain,
              [&](std::uint64_t step) {
                if (job.ranks == 1 || communicator.rank() != slow) return;
                while (step == 3 && made < all) std::this_thread::yield();
                if (step > 3) std::this_thread::sleep_for(20ms);
              },
              [&] { ++made; });
          const auto counting =
              make_algorithm("test", algorithm, options_on(job.topology), worker.buckets(), communicator);
          EXPECT_TRUE(counting->counts_together());
          std::uint64_t step = 0;
          for (bool meets = false; !meets; ++step) {
            const StepReport report = counting->step(worker, {.step = step, .lr = 0.01, .meeting = meeting});
            meets = report.meets;
            EXPECT_FALSE(report.stop);
            const std::uint64_t rate_step = counting->rate_step(step);
            EXPECT_LE(rate_step, made / static_cast<std::uint64_t>(job.ranks));
          }
          counting->rest();
          known[rank] = counting->rank_steps();
          EXPECT_EQ(known[rank][rank], step);
          EXPECT_GE(counting->rate_step(step), meeting);
          communicator.barrier();  // nobody goes on before all have looked
        });
        for (const auto& steps : known) EXPECT_EQ(steps, known[0]) << job.topology;
        EXPECT_EQ(std::accumulate(known[0].begin(), known[0].end(), std::uint64_t{0}), made);
        EXPECT_GE(made, all) << job.topology << ", " << job.ranks;
        EXPECT_TRUE(job.ranks == 1 || known[0][static_cast<std::size_t>(slow)] < meeting) << job.topology;
      }
    }
  }
}

// Steps go on where the ranks were, each at its own.
TEST(AdPsgd, MeetsWhenOneIsAskedAndGoesOn) {
  for (const int asked : {0, 3}) {
    run_threads(4, 60s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      auto algorithm = make_algorithm("test", "ad_psgd", options_on("1"), worker.buckets(), communicator);
      EXPECT_TRUE(algorithm->can_go_on());
      std::uint64_t step = 0;
      for (int meeting = 0; meeting < 4; ++meeting) {
        const std::uint64_t before = step;
        for (bool meets = false; !meets; ++step) {
          const bool wish = communicator.rank() == asked && step >= before + 5;
          meets = algorithm->step(worker, {step, 0.01, wish}).meets;
        }
        algorithm->rest();
        const auto steps = algorithm->rank_steps();
        EXPECT_EQ(steps[static_cast<std::size_t>(asked)], 6U * (static_cast<std::size_t>(meeting) + 1));
        EXPECT_EQ(steps[static_cast<std::size_t>(communicator.rank())], step);
        communicator.barrier();
        if (meeting != 1) continue;
        auto again = make_algorithm("test", "ad_psgd", options_on("1"), worker.buckets(), communicator);
        test::hand_over(*algorithm, *again);
        EXPECT_EQ(again->rank_steps(), steps);
        algorithm = std::move(again);
      }
    });
  }
}

// With equal counts: through meetings, and whoever is ahead.
TEST(AdPsgd, StopsTogetherWhenOneIsAsked) {
  for (const Job& job : {Job{"1", 1}, {"1", 2}, {"star", 3}, {"ring", 4}}) {
    for (const int asked : {0, job.ranks - 1}) {
      for (const std::uint64_t when : {0U, 7U, 9U, 10U}) {
        std::vector<std::uint64_t> ended(static_cast<std::size_t>(job.ranks));
        run_threads(job.ranks, 60s, [&](Communicator& communicator) {
          Quadratic worker(communicator.rank());
          const auto algorithm =
              make_algorithm("test", "ad_psgd(count=each)", options_on(job.topology), worker.buckets(), communicator);
          EXPECT_FALSE(algorithm->counts_together() || algorithm->can_go_on());
          std::uint64_t step = 0;
          for (bool stop = false; !stop; ++step) {
            stop = algorithm->step(worker, {step, 0.01, communicator.rank() == asked && step >= when}).stop;
            if ((step + 1) % 5 == 0) algorithm->rest();
          }
          algorithm->rest();
          ended[static_cast<std::size_t>(communicator.rank())] = step;
        });
        for (const std::uint64_t step : ended) EXPECT_EQ(step, ended[0]) << job.topology << ", " << when;
        EXPECT_GT(ended[0], when);
        EXPECT_LE(ended[0], when + 7);  // nobody is beyond the next meeting by more than a step
      }
    }
  }
}

// A wish that comes when another rank has made all its steps changes nothing.
TEST(AdPsgd, EndsAsPlannedWhenOneHasDoneAllItsSteps) {
  std::latch first_done(1);
  run_threads(2, 60s, [&](Communicator& communicator) {
    Quadratic plain(communicator.rank());
    Hooked worker(plain, [&](std::uint64_t step) {
      if (communicator.rank() == 1 && step == 5) first_done.wait();
    });
    const auto algorithm =
        make_algorithm("test", "ad_psgd(count=each)", options_on("1"), worker.buckets(), communicator);
    for (std::uint64_t step = 0; step < 10; ++step) {
      const bool wish = communicator.rank() == 1 && step > 5;
      if (communicator.rank() == 0 && step == 9) first_done.count_down();
      EXPECT_FALSE(algorithm->step(worker, {step, 0.01, wish}).stop && step < 9);
    }
    algorithm->rest();
  });
}

TEST(AdPsgd, SendsWhatTheFormulaSays) {
  for (const int ranks : {2, 4}) {
    for (const char* codec : {"none", "f16"}) {
      run_threads(ranks, 60s, [&](Communicator& communicator) {
        Perceptron worker(communicator.rank(), "sgd");
        const auto algorithm =
            make_algorithm("test", "ad_psgd(every=2)", options_on("1", codec), worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < 20; ++step) algorithm->step(worker, {step, 0.01, false});
        algorithm->rest();
        const std::uint64_t message = message_bytes(codec, worker.buckets());
        const std::uint64_t note = 24 + 8 * static_cast<std::uint64_t>(ranks);
        const std::uint64_t sent = algorithm->traffic().bytes_sent, exchanges = algorithm->exchange_count().value();
        EXPECT_LE(exchanges, communicator.rank() % 2 == 1 ? 10U : 10U * static_cast<std::uint64_t>(ranks) / 2);
        // and the notes of the meeting, and perhaps questions and news
        const std::uint64_t notes = sent - exchanges * (message + note);
        EXPECT_EQ(notes % note, 0U);
        EXPECT_GE(notes / note, static_cast<std::uint64_t>(ranks - 1));
        EXPECT_LT(notes, message);
        communicator.barrier();
      });
    }
  }
}

TEST(AdPsgd, AlonePassesThroughAResumeToTheSameBits) {
  run_threads(1, 20s, [&](Communicator& communicator) {
    Perceptron worker(0, "sgd"), other(0, "sgd");
    const auto algorithm = make_algorithm("test", "ad_psgd", options_on("1"), worker.buckets(), communicator);
    const auto again = make_algorithm("test", "ad_psgd", options_on("1"), other.buckets(), communicator);
    for (std::uint64_t step = 0; step < 8; ++step) {
      if (step == 4) {
        algorithm->rest();
        std::ranges::copy(worker.parameters(), other.parameters().begin());
        again->enter(step);
        test::hand_over(*algorithm, *again);
        test::hand_over(worker.optimiser(), other.optimiser());
      }
      algorithm->step(worker, {step, 0.1, false});
      if (step >= 4) again->step(other, {step, 0.1, false});
    }
    EXPECT_EQ(algorithm->rate_step(8), 8U);
    algorithm->rest();
    again->rest();
    EXPECT_EQ(0, std::memcmp(worker.parameters().data(), other.parameters().data(), worker.parameters().size_bytes()));
  });
}

TEST(AdPsgd, TakesUpTheRanksModelsAndStepsOfACheckpoint) {
  run_threads(4, 60s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    std::ranges::fill(worker.parameters(), static_cast<float>(communicator.rank()));
    const auto algorithm =
        make_algorithm("test", "ad_psgd", options_on("1", "none", false), worker.buckets(), communicator);
    test::Store saved;
    algorithm->visit_state(saved);
    for (int rank = 0; rank < 4; ++rank) saved.numbers.at(fmt::format("ad_psgd.steps/{}", rank)) = 30;
    saved.reading = true;
    algorithm->visit_state(saved);
    EXPECT_EQ(algorithm->rate_step(30), 30U);
    communicator.barrier();
    for (std::uint64_t step = 30; step < 40; ++step) algorithm->step(worker, {step, 0, false});
    algorithm->rest();
    EXPECT_EQ(algorithm->rate_step(40), 40U);  // a meeting tells all
    double sum = worker.parameters()[0];
    communicator.all_reduce(std::span(&sum, 1));
    EXPECT_NEAR(sum, 6, 1e-4);
    EXPECT_NEAR(worker.parameters()[0], 1.5, 0.8);
    algorithm->agree(worker);
    algorithm->rest();
    EXPECT_NEAR(worker.parameters()[0], 1.5, 1e-5);
    algorithm->step(worker, {40, 0, false});
    algorithm->rest();
    EXPECT_NEAR(worker.parameters()[0], 1.5, 1e-5);
  });
}

TEST(AdPsgd, ReportsTheErrorOfAWorker) {
  for (const int bad : {0, 1}) {
    EXPECT_THROW(run_threads(4, 20s,
                             [&](Communicator& communicator) {
                               Quadratic worker(communicator.rank());
                               const auto made =
                                   make_algorithm("test", "ad_psgd", options_on("1"), worker.buckets(), communicator);
                               for (std::uint64_t step = 0; step < 6; ++step) {
                                 worker.fails = communicator.rank() == bad && step == 2;
                                 made->step(worker, {step, 0.1, false});
                               }
                               made->rest();
                             }),
                 NumericError)
        << bad;
  }
}

// What the averaging thread finds is an error of the steps.
TEST(AdPsgd, ReportsAModelThatIsNotFinite) {
  const std::string error = message_of([] {
    run_threads(2, 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      const auto made =
          make_algorithm("test", "ad_psgd", options_on("1", "f16", false), worker.buckets(), communicator);
      std::ranges::fill(worker.parameters(), communicator.rank() == 1 ? std::numeric_limits<float>::infinity() : 1.0F);
      for (std::uint64_t step = 0; step < 3; ++step) made->step(worker, {step, 0, false});
      made->rest();
    });
  });
  EXPECT_NE(error.find("third"), std::string::npos) << error;
}

TEST(AdPsgd, RefusesWhatDoesNotFit) {
  const auto why = [](const char* topology, const char* mixing, const char* codec, const char* algorithm) {
    std::string error;
    run_threads(3, 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      AlgorithmOptions options = options_on(topology, codec);
      options.mixing = mixing;
      const std::string mine =
          message_of([&] { make_algorithm("--algorithm", algorithm, options, worker.buckets(), communicator); });
      if (communicator.rank() == 0) error = mine;
    });
    return error;
  };
  EXPECT_EQ(why("star", "uniform", "none", "ad_psgd(every=0)"), "");
  EXPECT_NE(why("ring", "uniform", "none", "ad_psgd").find("two such sides; take --topology"), std::string::npos);
  EXPECT_NE(why("1", "uniform", "none", "ad_psgd").find("no even number"), std::string::npos);
  EXPECT_NE(why("star", "metropolis", "none", "ad_psgd").find("leave --mixing out"), std::string::npos);
  EXPECT_NE(why("star", "uniform", "qsgd", "ad_psgd").find("models are exchanged"), std::string::npos);
  EXPECT_NE(why("star", "uniform", "ef | f16", "ad_psgd").find("no memory"), std::string::npos);
  EXPECT_NE(why("star", "uniform", "none", "ad_psgd(every=-1)").find("every must be in"), std::string::npos);
}

}  // namespace
}  // namespace sotto
