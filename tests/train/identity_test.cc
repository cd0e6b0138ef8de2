#include "app/train/identity.h"

#include <gtest/gtest.h>

#include <vector>

#include "sotto/comm/emulated/threads.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// No option is wrong, so it is not the error of one: a launcher or coordinator would take it for a rank that may leave.
TEST(Identity, ReplicasThatDifferEndTheRunOnEveryRank) {
  run_threads(3, std::chrono::seconds(20), [](Communicator& communicator) {
    std::vector<float> parameters(5, 1.0F);
    EXPECT_NO_THROW(require_same_parameters(parameters, 6, communicator));
    if (communicator.rank() == 1) parameters[3] = -1;
    try {
      require_same_parameters(parameters, 7, communicator);
      ADD_FAILURE() << "rank " << communicator.rank();
    } catch (const ConfigError& error) {
      ADD_FAILURE() << error.what();
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with("rank 1 has other parameters than rank 0 after step 7: ")) << text;
    }
  });
}

}  // namespace
}  // namespace sotto
