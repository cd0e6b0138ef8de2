// Algorithms over each transport of the table, on ranks that are processes.
#include "tests/algorithm/transports.h"
#include "tests/comm/over_transport.h"

namespace sotto {
namespace {

class AlgorithmsOverTransports : public OverTransportWithRanks {};

TEST_P(AlgorithmsOverTransports, GiveWhatTheyGiveOnThreads) {
  expect_success(run(std::chrono::seconds(60), test::check_as_on_threads));
}
INSTANTIATE_TEST_SUITE_P(Ranks, AlgorithmsOverTransports,
                         testing::Combine(testing::ValuesIn(usable_transports()), testing::Values(1, 2, 3, 4, 7)),
                         OverTransportWithRanks::name_of);

}  // namespace
}  // namespace sotto
