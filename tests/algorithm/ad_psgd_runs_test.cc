// What AD-PSGD sends, keeps in a checkpoint, reports and refuses.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <string>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "tests/algorithm/pairs.h"
#include "tests/algorithm/perceptron.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/message_of.h"
#include "tests/support/specs.h"
#include "tests/support/store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_bytes;
using test::message_of;
using test::options_on;
using test::Perceptron;
using test::Quadratic;

TEST(AdPsgd, SendsWhatTheFormulaSays) {
  for (const int ranks : {2, 4}) {
    for (const char* codec : {"none", "f16"}) {
      run_threads(ranks, 60s, [&](Communicator& communicator) {
        Perceptron worker(communicator.rank(), "sgd");
        const auto algorithm =
            make_algorithm(test::algorithm("ad_psgd(every=2)"), options_on("1", codec), worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < 20; ++step) algorithm->step(worker, {step, 0.01, false});
        algorithm->drain();
        const std::uint64_t message = message_bytes(codec, worker.buckets());
        const std::uint64_t note = 24 + 8 * static_cast<std::uint64_t>(ranks);
        const std::uint64_t sent = algorithm->status().traffic.bytes_sent,
                            exchanges = algorithm->own_speed()->exchange_count();
        EXPECT_LE(exchanges, communicator.rank() % 2 == 1 ? 10U : 10U * static_cast<std::uint64_t>(ranks) / 2);
        // The rest are the notes of the meeting, and perhaps questions and news.
        const std::uint64_t notes = sent - exchanges * (message + note);
        EXPECT_EQ(notes % note, 0U);
        EXPECT_GE(notes / note, 1U);
        EXPECT_LT(notes, message);
        communicator.barrier();
      });
    }
  }
}

TEST(AdPsgd, AlonePassesThroughAResumeToTheSameBits) {
  run_threads(1, 20s, [&](Communicator& communicator) {
    Perceptron worker(0, "sgd"), other(0, "sgd");
    const auto algorithm = make_algorithm(test::algorithm("ad_psgd"), options_on("1"), worker.buckets(), communicator);
    const auto again = make_algorithm(test::algorithm("ad_psgd"), options_on("1"), other.buckets(), communicator);
    for (std::uint64_t step = 0; step < 8; ++step) {
      if (step == 4) {
        algorithm->drain();
        std::ranges::copy(worker.parameters(), other.parameters().begin());
        again->enter(step);
        test::hand_over(*algorithm, *again);
        test::hand_over(worker.optimiser(), other.optimiser());
      }
      algorithm->step(worker, {step, 0.1, false});
      if (step >= 4) again->step(other, {step, 0.1, false});
    }
    EXPECT_EQ(algorithm->own_speed()->rate_step(), 8U);
    algorithm->drain();
    again->drain();
    EXPECT_EQ(0, std::memcmp(worker.parameters().data(), other.parameters().data(), worker.parameters().size_bytes()));
  });
}

TEST(AdPsgd, TakesUpTheRanksModelsAndStepsOfACheckpoint) {
  run_threads(4, 60s, [&](Communicator& communicator) {
    Quadratic worker(communicator.rank());
    std::ranges::fill(worker.parameters(), static_cast<float>(communicator.rank()));
    const auto algorithm =
        make_algorithm(test::algorithm("ad_psgd"), options_on("1", "none", false), worker.buckets(), communicator);
    test::Store saved;
    algorithm->visit_state(saved);
    for (int rank = 0; rank < 4; ++rank) saved.numbers.at(fmt::format("ad_psgd.steps/{}", rank)) = 30;
    saved.reading = true;
    algorithm->visit_state(saved);
    EXPECT_EQ(algorithm->own_speed()->rate_step(), 30U);
    communicator.barrier();
    for (std::uint64_t step = 30; step < 40; ++step) algorithm->step(worker, {step, 0, false});
    algorithm->drain();
    EXPECT_EQ(algorithm->own_speed()->rate_step(), 40U);  // after a meeting each rank knows all steps
    double sum = worker.parameters()[0];
    communicator.all_reduce(std::span(&sum, 1));
    EXPECT_NEAR(sum, 6, 1e-4);
    EXPECT_NEAR(worker.parameters()[0], 1.5, 0.8);
    algorithm->average_models(worker);
    algorithm->drain();
    EXPECT_NEAR(worker.parameters()[0], 1.5, 1e-5);
    algorithm->step(worker, {40, 0, false});
    algorithm->drain();
    EXPECT_NEAR(worker.parameters()[0], 1.5, 1e-5);
  });
}

TEST(AdPsgd, ReportsTheErrorOfAWorker) {
  for (const int bad : {0, 1}) {
    EXPECT_THROW(run_threads(4, 20s,
                             [&](Communicator& communicator) {
                               Quadratic worker(communicator.rank());
                               const auto made = make_algorithm(test::algorithm("ad_psgd"), options_on("1"),
                                                                worker.buckets(), communicator);
                               for (std::uint64_t step = 0; step < 6; ++step) {
                                 worker.fails = communicator.rank() == bad && step == 2;
                                 made->step(worker, {step, 0.1, false});
                               }
                               made->drain();
                             }),
                 NumericError)
        << bad;
  }
}

// A later step throws the error that the averaging thread found.
TEST(AdPsgd, ReportsAModelThatIsNotFinite) {
  const std::string error = message_of([] {
    run_threads(2, 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      const auto made =
          make_algorithm(test::algorithm("ad_psgd"), options_on("1", "f16", false), worker.buckets(), communicator);
      std::ranges::fill(worker.parameters(), communicator.rank() == 1 ? std::numeric_limits<float>::infinity() : 1.0F);
      for (std::uint64_t step = 0; step < 3; ++step) made->step(worker, {step, 0, false});
      made->drain();
    });
  });
  EXPECT_NE(error.find("third"), std::string::npos) << error;
}

TEST(AdPsgd, ErrorsOfTheCommunicatorNameTheStep) {
  std::string error;
  EXPECT_THROW(run_threads(2, 20s,
                           [&](Communicator& communicator) {
                             Quadratic worker(communicator.rank());
                             const auto made = make_algorithm(test::algorithm("ad_psgd"), options_on("1"),
                                                              worker.buckets(), communicator);
                             for (std::uint64_t step = 0; step < 4; ++step) made->step(worker, {step, 0.1, false});
                             made->drain();
                             communicator.barrier();  // nobody is in drain() any more when rank 1 fails
                             if (communicator.rank() == 1) throw NumericError("rank 1 gives up");
                             error = message_of([&] { communicator.barrier(); });
                           }),
               NumericError);
  EXPECT_NE(error.find("with rank 1 at step 3"), std::string::npos) << error;
}

TEST(AdPsgd, RefusesWhatDoesNotFit) {
  const auto why = [](const char* topology, const char* mixing, const char* codec, const char* algorithm) {
    std::string error;
    run_threads(3, 20s, [&](Communicator& communicator) {
      Quadratic worker(communicator.rank());
      AlgorithmOptions options = options_on(topology, codec);
      options.mixing = test::mixing(mixing);
      const std::string mine =
          message_of([&] { make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator); });
      if (communicator.rank() == 0) error = mine;
    });
    return error;
  };
  EXPECT_EQ(why("star", "uniform", "none", "ad_psgd(every=0)"), "");
  EXPECT_NE(why("ring", "uniform", "none", "ad_psgd").find("two such sides; take "), std::string::npos);
  EXPECT_NE(why("1", "uniform", "none", "ad_psgd").find("no even number"), std::string::npos);
  EXPECT_NE(why("star", "metropolis", "none", "ad_psgd").find("leave mixing out"), std::string::npos);
  EXPECT_NE(why("star", "uniform", "qsgd", "ad_psgd").find("models are exchanged"), std::string::npos);
  EXPECT_NE(why("star", "uniform", "ef | f16", "ad_psgd").find("no memory"), std::string::npos);
  EXPECT_NE(why("star", "uniform", "none", "ad_psgd(every=-1)").find("every must be in"), std::string::npos);
}

}  // namespace
}  // namespace sotto
