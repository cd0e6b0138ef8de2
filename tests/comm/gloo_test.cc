// What is special about Gloo: how its ranks meet, and what happens when one never comes or gets no thread.
// transports_test.cc tests the rest.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../support/thread_limit.h"
#include "adapters/c10d/transports.h"
#include "gloo_group.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

TEST_F(Gloo, RanksThatNeverComeAreNamed) {
  const auto all = run_processes(2, limit, [&](int rank) {
    TransportOptions options;
    options.connect_deadline = 500ms;
    connect_gloo(world(rank, 4), options);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(all[rank].status, 1);
    // The rank whose time is over a moment later may say "rank 1: rank 0 gave up: rank 0: ...".
    expect_contains(all[rank].error, "rank " + std::to_string(rank) + ": ");
    expect_contains(all[rank].error, ": ranks 2, 3 did not come within 0.5 s at 127.0.0.1:");
  }
}

TEST_F(Gloo, ASignalEndsTheWaitForARankThatNeverComes) {
  const auto all = run_processes(2, limit, [&](int rank) {
    TransportOptions options;
    options.connect_deadline = 600s;
    if (rank == 1) {
      options.stop = [port = world(1, 3).port] {  // as soon as this rank waits, too
        return plain_stores().join("127.0.0.1", port, 60s, {})->check("test/here/1") ? SIGTERM : 0;
      };
    }
    connect_gloo(world(rank, 3), options);
  });
  EXPECT_TRUE(all[1].error.starts_with("rank 1: stopped by SIGTERM while the ranks met at 127.0.0.1:")) << all[1].error;
  expect_contains(all[0].error, "rank 0: rank 1 gave up: rank 1: stopped by SIGTERM while the ranks met");
}

// Once a receive is given up, the room of its message must not be filled any more.
TEST_F(Gloo, AnExchangeThatGetsNoThreadLeavesNoReceiveBehind) {
  if (!test::ThreadLimit::works()) GTEST_SKIP() << "threads cannot be limited here";
  const SharedCounter failed;
  const auto all = run(3, 600s, [&](Communicator& communicator) {
    std::vector<std::byte> mine(1000, std::byte{1});
    std::vector<std::byte> everything(3000);
    communicator.barrier();
    try {
      std::optional<test::ThreadLimit> none;
      if (communicator.rank() == 0) none.emplace(0);
      communicator.all_gather(mine, everything);
    } catch (const CommError&) {
      failed.add();
      if (communicator.rank() != 0) throw;
      std::ranges::fill(everything, std::byte{7});
      failed.wait_for(3);
      if (std::ranges::count(everything, std::byte{7}) != 3000) throw std::runtime_error("filled later");
      throw;
    }
  });
  expect_contains(all[0].error, "rank 0: all_gather at step 17: no thread could be started for communication");
  for (const int rank : {1, 2}) expect_contains(all[static_cast<std::size_t>(rank)].error, "the connection was closed");
}

TEST_F(Gloo, AServerThatIsStoppedWhileTheyMeetIsNoticedWithinTheDeadline) {
  const auto all = run_processes(1, limit, [&](int) {
    TransportOptions options;
    options.connect_deadline = 1s;
    int looks = 0;
    options.stop = [this, &looks] {
      if (++looks == 10) ::kill(server_.pid(), SIGSTOP);
      return 0;
    };
    connect_gloo(world(0, 2), options);
  });
  expect_contains(all[0].error, " does not answer, for ");
  EXPECT_LT(all[0].seconds, 20);
}

TEST_F(Gloo, ARankThatIsStartedTwiceIsNamedByAll) {
  const auto all = run_processes(3, limit, [&](int process) {
    TransportOptions options;
    options.connect_deadline = 600s;
    connect_gloo(world(process == 0 ? 0 : 1, 3), options);
  });
  for (const Ended& ended : all) expect_contains(ended.error, "rank 1 was started twice, as ");
}

TEST_F(Gloo, AProcessThatConnectsTwiceIsToldToClone) {
  const auto all = run_processes(2, limit, [&](int process) {
    connect_gloo(world(process, 2), {})->barrier();
    connect_gloo(world(process, 2), {});
  });
  for (const Ended& ended : all) expect_contains(ended.error, " has connected before in this process; clone() of ");
}

TEST_F(Gloo, ARankThatIsStartedOnceMoreDisturbsNobodyWhoHasMet) {
  const SharedCounter met, gone;
  const auto all = run_processes(3, limit, [&](int process) {
    if (process == 2) {
      met.wait_for(2);
      const auto done = [&gone](const void*) { gone.add(); };
      const std::unique_ptr<const void, decltype(done)> last(&gone, done);
      connect_gloo(world(1, 2), {});
    }
    const auto communicator = connect_gloo(world(process, 2), {});
    met.add();
    gone.wait_for(1);
    communicator->clone()->barrier();
  });
  EXPECT_EQ(all[0].error + all[1].error, "");
  expect_contains(all[2].error, "rank 1 was started twice, as ");
}

TEST_F(Gloo, AnotherNumberOfRanksIsNamedByBoth) {
  const auto all = run_processes(2, limit, [&](int rank) {
    TransportOptions options;
    options.connect_deadline = 600s;
    connect_gloo(world(rank, 3 + rank), options);
  });
  const bool first = all[0].error.starts_with("rank 0 was");  // or rank 1 came first
  for (const Ended& ended : all) {
    expect_contains(ended.error, first ? "rank 0 was started as one of 3 ranks, and rank 1 as one of 4"
                                       : "rank 1 was started as one of 4 ranks, and rank 0 as one of 3");
  }
}

// A port that no other program takes while this object lives. Unless `listening`, a socket that allows sharing can
// still listen on it.
class ReservedPort {
 public:
  explicit ReservedPort(bool listening) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    if (!listening) ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    socklen_t length = sizeof(address_);
    address_.sin_family = AF_INET;
    ::bind(socket_, reinterpret_cast<const sockaddr*>(&address_), length);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &length);
    if (listening) ::listen(socket_, 1);
  }
  ~ReservedPort() { ::close(socket_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;
  std::uint16_t number() const { return ntohs(address_.sin_port); }

 private:
  int socket_;
  sockaddr_in address_{};
};

// Runs `body` on each rank, with a store that rank 0 serves.
std::vector<Ended> run_hosted(int ranks, const std::function<void(Communicator&)>& body) {
  const ReservedPort port(false);
  return run_processes(ranks, limit, [&](int rank) {
    World world;
    world.rank = world.local_rank = rank;
    world.size = world.local_size = ranks;
    world.port = port.number();
    world.stores = &plain_stores();
    world.host_store = rank == 0;
    TransportOptions options;
    options.deadline = 30s;
    body(*connect_gloo(world, options));
  });
}

TEST(GlooHosted, TheRankThatServesTheStoreEndsLast) {
  const auto all = run_hosted(3, [](Communicator& communicator) {
    const auto clone = communicator.clone();
    clone->barrier();
    if (communicator.rank() != 0) std::this_thread::sleep_for(500ms);
  });
  expect_success(all);
  EXPECT_GE(all[0].seconds, 0.5);
}

TEST(GlooHosted, TheDeathOfTheRankThatServesTheStoreEndsTheOthers) {
  const auto all = run_hosted(3, [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 0) ::raise(SIGKILL);
    std::vector<float> data(100);
    communicator.all_reduce(data);
  });
  for (const int rank : {1, 2}) {
    EXPECT_EQ(all[static_cast<std::size_t>(rank)].status, 1);
    EXPECT_LT(all[static_cast<std::size_t>(rank)].seconds, 25);
    expect_contains(all[static_cast<std::size_t>(rank)].error, "with rank 0 at step 0: the connection was closed");
  }
}

// Runs in another process, since a store has threads and the other tests fork.
std::string error_of(const std::function<void()>& body) {
  const auto all = run_processes(1, limit, [&](int) { body(); });
  return all[0].status == 1 ? all[0].error : "status " + std::to_string(all[0].status);
}

TEST(GlooHosted, ARankThatServesTheStoreAndIsStartedTwiceIsNamedByAll) {
  const ReservedPort port(false);
  const auto all = run_processes(3, limit, [&](int process) {
    World world;
    world.rank = world.local_rank = process / 2;  // 0, 0, 1
    world.size = world.local_size = 3;
    world.port = port.number();
    world.stores = &plain_stores();
    world.host_store = world.rank == 0;
    TransportOptions options;
    options.connect_deadline = 600s;
    connect_gloo(world, options);
  });
  for (const Ended& ended : all) expect_contains(ended.error, "rank 0 was started twice, as ");
}

TEST(ConnectGloo, SaysWhatIsWrong) {
  World world;
  world.size = world.local_size = 2;
  world.rank = world.local_rank = 1;
  const ReservedPort nobody(false);
  world.port = nobody.number();
  world.stores = &plain_stores();
  TransportOptions options;
  options.connect_deadline = 300ms;
  expect_contains(error_of([&] { connect_gloo(world, options); }),
                  "nobody serves the ranks' meeting place at 127.0.0.1:");
  const ReservedPort silent(true);
  world.port = silent.number();
  expect_contains(error_of([&] { connect_gloo(world, options); }),
                  "is no meeting place of ranks: it does not answer, for 0.3");
  options.connect_deadline = 600s;
  options.stop = [] { return SIGINT; };
  expect_contains(error_of([&] { connect_gloo(world, options); }),
                  "rank 1: stopped by SIGINT while the ranks met at 127.0.0.1:");
  options.stop = {};
  options.interface = "eth77";
  expect_contains(error_of([&] { connect_gloo(world, options); }), "there is no network interface `eth77`; there are ");
  options.interface.clear();
  options.address = "203.0.113.7";
  expect_contains(error_of([&] { connect_gloo(world, options); }), "Gloo cannot use address 203.0.113.7: ");
  options.address.clear();
  world.host = "no-such-host.invalid";
  expect_contains(error_of([&] { connect_gloo(world, options); }),
                  "the host `no-such-host.invalid`, where the ranks meet, is unknown here");
  options.interface = "lo";
  expect_contains(error_of([&] { connect_gloo(world, options); }),
                  "the host `no-such-host.invalid`, where the ranks meet, is unknown here");
}

}  // namespace
}  // namespace sotto
