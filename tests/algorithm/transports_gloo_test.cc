// Algorithms over Gloo, on ranks that are processes.
#include "tests/algorithm/transports.h"
#include "tests/comm/gloo_group.h"

namespace sotto {
namespace {

class AlgorithmsOverGloo : public Gloo, public testing::WithParamInterface<int> {};

TEST_P(AlgorithmsOverGloo, GiveWhatTheyGiveOnThreads) {
  expect_success(run(GetParam(), std::chrono::seconds(60), test::check_as_on_threads));
}
INSTANTIATE_TEST_SUITE_P(Ranks, AlgorithmsOverGloo, testing::Values(1, 2, 3, 4, 7, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace sotto
