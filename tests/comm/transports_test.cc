// Tests each transport of the table: the laws of communicators and mailboxes on ranks that are processes, and what
// happens when one dies, is silent or gives up. What is special about a transport has its own test.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "adapters/c10d/transports.h"
#include "laws.h"
#include "mailbox_laws.h"
#include "over_transport.h"
#include "sotto/comm/emulated/shaped.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

class Transports : public Job {};

TEST_F(Transports, HaveNamesAndSummaries) {
  std::set<std::string_view> names;
  for (const Transport& transport : transport_table()) {
    EXPECT_TRUE(names.insert(transport.name).second) << transport.name;
    EXPECT_FALSE(transport.summary.empty()) << transport.name;
    EXPECT_NE(transport_choices().find(transport.name), std::string::npos);
  }
  EXPECT_EQ(transport_choices().find("tcp; "), 0U) << "the default is the first";
  EXPECT_EQ(usable_transports().front(), "tcp") << "it works everywhere";
}

// A transport that this machine refuses says by which name it was chosen.
TEST_F(Transports, RefusalsNameTheTransport) {
  for (const Transport& transport : transport_table()) {
    const std::string why = obstacle(transport, 1000);
    EXPECT_TRUE(why.empty() || why.find("backend " + std::string(transport.name)) != std::string::npos) << why;
  }
}

class TransportLaws : public OverTransportWithRanks {};

TEST_P(TransportLaws, Hold) { expect_success(run(30s, check_laws)); }
// Before any peer was needed.
TEST_P(TransportLaws, HoldAfterAClone) {
  expect_success(run(30s, [](Communicator& communicator) {
    const auto clone = communicator.clone();
    communicator.barrier();
    clone->barrier();
  }));
}
TEST_P(TransportLaws, HoldForMailboxes) { expect_success(run(30s, check_mailbox_laws)); }
INSTANTIATE_TEST_SUITE_P(Ranks, TransportLaws,
                         testing::Combine(testing::ValuesIn(usable_transports()), testing::Values(1, 2, 3, 4, 7)),
                         OverTransportWithRanks::name_of);

class TransportFailures : public OverTransport {
 protected:
  // The last rank is killed while the others wait for its mail. Returns how the others ended.
  std::vector<Ended> run_with_a_killed_rank(int ranks) const {
    auto all =
        run(ranks, 600s, [](Communicator& communicator) { check_lost_peer(communicator, [] { ::raise(SIGKILL); }); });
    EXPECT_EQ(all.back().status, 128 + SIGKILL);
    all.pop_back();
    return all;
  }
};

TEST_P(TransportFailures, LawsHoldBehindAnEmulatedLink) {
  expect_success(run(3, 30s, [](Communicator& communicator) {
    check_laws(*make_shaped(communicator.clone(), {{10e9, 20e-6}}));
    check_mailbox_laws(*make_shaped(communicator.clone(), {{10e9, 20e-6, 50e-6}}));
  }));
}

TEST_P(TransportFailures, AKilledRankIsNamedByAllOthers) {
  const auto all = run(4, 30s, [](Communicator& communicator) {
    std::vector<float> data(100000);
    communicator.all_reduce(data);
    if (communicator.rank() == 2) ::raise(SIGKILL);
    communicator.all_reduce(data);
  });
  EXPECT_EQ(all[2].status, 128 + SIGKILL);
  for (const int rank : {0, 1, 3}) {
    const Ended& ended = all[static_cast<std::size_t>(rank)];
    EXPECT_EQ(ended.status, 1);
    EXPECT_LT(ended.seconds, 25);
    expect_contains(ended.error, "rank " + std::to_string(rank) + ": all_reduce with rank ");
    expect_contains(ended.error, "with rank 2 at step 17: the connection was closed: the peer ended or was killed");
  }
}

TEST_P(TransportFailures, AKilledRankEndsAGatherAtOnce) {
  const auto all = run(4, 600s, [](Communicator& communicator) {
    std::vector<std::byte> mine(1000);
    std::vector<std::byte> everything(4000);
    communicator.all_gather(mine, everything);
    if (communicator.rank() == 1) ::raise(SIGKILL);
    if (communicator.rank() == 3) ::usleep(300000);
    communicator.all_gather(mine, everything);
  });
  for (const int rank : {0, 2, 3}) {
    EXPECT_EQ(all[static_cast<std::size_t>(rank)].status, 1);
    expect_contains(all[static_cast<std::size_t>(rank)].error,
                    "all_gather with rank 1 at step 17: the connection was closed");
  }
}

TEST_P(TransportFailures, AStalledRankIsNamedByAllOthersAtTheDeadline) {
  const SharedCounter failed;
  const auto all = run(4, 2s, [&](Communicator& communicator) {
    std::vector<float> data(100000);
    communicator.barrier();
    if (communicator.rank() == 1) return failed.wait_for(3);
    try {
      communicator.all_reduce(data);
    } catch (const CommError&) {
      failed.add();
      throw;
    }
  });
  for (const int rank : {0, 2, 3}) {
    const Ended& ended = all[static_cast<std::size_t>(rank)];
    EXPECT_EQ(ended.status, 1);
    EXPECT_GE(ended.seconds, 2);
    expect_contains(ended.error, "with rank 1 at step 17: timed out after 2 s");
  }
}

TEST_P(TransportFailures, ARankThatThrowsEndsTheOthers) {
  const auto all = run(3, 600s, [](Communicator& communicator) {
    std::vector<float> data(100);
    communicator.barrier();
    if (communicator.rank() == 0) throw std::runtime_error("the disk is full");
    communicator.all_reduce(data);
  });
  EXPECT_EQ(all[0].error, "the disk is full");
  for (const int rank : {1, 2})
    expect_contains(all[static_cast<std::size_t>(rank)].error, "with rank 0 at step 17: the connection was closed");
}

TEST_P(TransportFailures, TheReasonOfARankThatGivesUpReachesTheOthers) {
  const SharedCounter failed;
  const auto all = run(3, 600s, [&](Communicator& communicator) {
    std::vector<float> data(100);
    communicator.all_reduce(data);
    if (communicator.rank() == 0) {
      communicator.give_up("the disk is full");
      return failed.wait_for(2);
    }
    try {
      communicator.all_reduce(data);
    } catch (const CommError&) {
      failed.add();
      throw;
    }
  });
  for (const int rank : {1, 2}) expect_contains(all[static_cast<std::size_t>(rank)].error, "the disk is full");
}

TEST_P(TransportFailures, AFailedCommunicatorStaysFailed) {
  const SharedCounter failed;
  expect_success(run(2, 1s, [&](Communicator& communicator) {
    if (communicator.rank() == 1) return failed.wait_for(1);
    require_failed_for_good(communicator);
    failed.add();
  }));
}

TEST_P(TransportFailures, AStalledMailboxIsNamedAtTheDeadline) { expect_success(run(4, 1s, check_stalled_peer)); }

TEST_P(TransportFailures, AKilledRankEndsThePollsOfOthers) { expect_success(run_with_a_killed_rank(4)); }
TEST_P(TransportFailures, AKilledRankEndsThePollsOfItsOnlyPeer) { expect_success(run_with_a_killed_rank(2)); }

TEST_P(TransportFailures, ARankThatThrowsEndsThePollsOfOthers) {
  const auto all = run(3, 600s, [](Communicator& communicator) {
    check_lost_peer(communicator, [] { throw std::runtime_error("the disk is full"); });
  });
  EXPECT_EQ(all[2].error, "the disk is full");
  expect_success({all[0], all[1]});
}

INSTANTIATE_TEST_SUITE_P(Table, TransportFailures, testing::ValuesIn(usable_transports()),
                         [](const auto& transport) { return transport.param; });

TEST_F(Transports, TakeAnyDeadline) {
  for (const std::string name : {"tcp", "gloo"}) {
    expect_success(run_processes(2, limit, [&](int rank) {
      TransportOptions options;
      options.deadline = options.connect_deadline = std::chrono::milliseconds::max();
      World here = world(rank, 2);
      here.prefix = name;
      const auto communicator = transport_table().require("backend", name).connect(here, options);
      communicator->barrier();
      communicator->open_mailbox(10)->close();
    }));
  }
}

TEST_F(Transports, ThatDifferAreNamedByBoth) {
  const auto all = run_processes(2, limit, [&](int rank) {
    TransportOptions options;
    options.connect_deadline = 600s;
    transport_table().require("backend", rank == 0 ? "gloo" : "tcp").connect(world(rank, 2), options);
  });
  const bool first = all[0].error.starts_with("rank 0 uses");  // or rank 1 came first
  for (const Ended& ended : all) {
    expect_contains(ended.error, first ? "rank 0 uses gloo, and another rank tcp; all ranks need the same transport"
                                       : "rank 1 uses tcp, and another rank gloo; all ranks need the same transport");
  }
}

// Runs in another process, since it starts threads and the other tests fork.
TEST_F(Transports, ChecksFindWhatWasBuilt) {
  const auto all = run_processes(1, limit, [](int) {
    std::map<std::string, std::string> found;
    for (const Transport& transport : transport_table()) found[std::string(transport.name)] = transport.check("");
    for (const std::string& name : usable_transports()) {
      if (transport_table().find(name) != nullptr && found[name].empty())
        throw std::runtime_error(name + " found nothing");
    }
    expect_contains(found["gloo"], "1 MiB all-reduce");
    if (testing::Test::HasFailure()) throw std::runtime_error(found["gloo"]);
    try {
      transport_table().require("backend", "gloo").check("nosuch0");
    } catch (const ConfigError&) {
      return;
    }
    throw std::runtime_error("an interface that does not exist was taken");
  });
  expect_success(all);
}

}  // namespace
}  // namespace sotto
