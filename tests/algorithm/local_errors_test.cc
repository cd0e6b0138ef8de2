// Options that local steps refuse, and how an error of one rank ends the group.
#include <gtest/gtest.h>

#include "sotto/aggregate/presets.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/message_of.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;
using test::Quadratic;

TEST(LocalErrors, OfAWorkerIsTheOneThatIsReported) {
  for (const char* algorithm : {"local(h=2)", "diloco(h=2, overlap=1)"}) {
    EXPECT_THROW(run_threads(3, 20s,
                             [&](Communicator& communicator) {
                               Quadratic worker(communicator.rank());
                               const auto made =
                                   make_algorithm(test::algorithm(algorithm), {}, worker.buckets(), communicator);
                               for (std::uint64_t step = 0; step < 6; ++step) {
                                 worker.fails = communicator.rank() == 1 && step == 2;
                                 made->step(worker, {step, 0.1, false});
                               }
                             }),
                 NumericError)
        << algorithm;
  }
}

TEST(LocalErrors, SayWhatToDo) {
  run_threads(2, 20s, [](Communicator& communicator) {
    const auto why = [&](const char* algorithm, const char* codec, const char* optimiser = "sgd", double lr = 0.1) {
      Quadratic worker(communicator.rank(), optimiser);
      AlgorithmOptions options;
      options.phases = test::read_phases(codec);
      return message_of([&] {
        const auto made = make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
        for (std::uint64_t step = 0; step < 4; ++step) made->step(worker, {step, lr, false});
      });
    };
    const auto expect = [&](const std::string& message, const char* part) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    expect(why("local", "signs"), "is for gradients alone");
    expect(why("local", "memsgd | topk(0.1)"), "use `ef`");
    expect(why("local", "momentum | topk(0.1)"), "`slowmo` or `diloco` for a momentum");
    expect(why("diloco(h=2)", "fetch | count_sketch"), "`slowmo` or `diloco` for a momentum");
    expect(why("local", "auto"), "say which codec");
    expect(why("diloco(shards=4)", "none"), "shards=4 of 3 buckets");
    expect(why("diloco(h=4, overlap=4)", "none"), "must be below h=4");
    expect(why("diloco(alpha=0.3)", "none"), "alpha needs an overlap");
    expect(why("diloco(momentum=-0.5)", "none"), "momentum must be in [0, 1)");
    expect(why("local(h=0)", "none"), "h must be in");
    expect(why("slowmo(buffers=drop)", "none"), "buffers must be");
    expect(why("slowmo(h=2, buffers=reset)", "none", "adam"), "say buffers=keep or average");
    expect(why("slowmo(h=2)", "none", "sgd", 0), "use a schedule of rates above 0");
    EXPECT_EQ(why("local(h=2)", "none", "sgd", 0), "");
    EXPECT_EQ(why("slowmo(h=2, buffers=average)", "none", "adam"), "");
  });
}

TEST(LocalErrors, LeaveRoomForEveryPresetThatIsForDifferences) {
  run_threads(2, 20s, [](Communicator& communicator) {
    std::size_t fit = 0;
    for (const Preset& preset : preset_table()) {
      Quadratic worker(communicator.rank());
      AlgorithmOptions options;
      options.phases = test::read_phases(std::string(preset.name));
      const std::string why =
          message_of([&] { make_algorithm(test::algorithm("local"), options, worker.buckets(), communicator); });
      EXPECT_TRUE(why.empty() || why.find("not gradients") != std::string::npos) << why;
      fit += why.empty() ? 1 : 0;
    }
    EXPECT_GE(5 * fit, 2 * preset_table().size()) << "only " << fit;  // others send momenta of gradients
  });
}

}  // namespace
}  // namespace sotto
