// What is special about the transport `tcp`: where it listens, how many sockets it needs, and strangers that connect
// during a run.
#include "sotto/comm/tcp/tcp.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sotto/comm/mailbox.h"
#include "tests/comm/job.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

class Tcp : public Job {
 protected:
  std::vector<Ended> run(int ranks, std::chrono::milliseconds deadline,
                         const std::function<void(Communicator&)>& body) const {
    return run_over(connect_tcp, ranks, deadline, body);
  }
};

// The addresses at which this process listens, and the number of its other TCP sockets.
struct Sockets {
  std::vector<sockaddr_in> listening;
  std::size_t connected = 0;
};

Sockets sockets() {
  Sockets found;
  for (int file = 0; file < 1024; ++file) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (::getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0) continue;
    sockaddr_in address{};
    size = sizeof(address);
    ::getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
    if (address.sin_family != AF_INET) continue;
    if (listens != 0) {
      found.listening.push_back(address);
    } else {
      ++found.connected;
    }
  }
  return found;
}

// Ends the connections of this process now and then, but those to the store, as if a machine on the way had forgotten
// them.
class Breaker {
 public:
  explicit Breaker(int store) : store_(store), thread_([this] { run(); }) {}
  ~Breaker() {
    ended_ = true;
    thread_.join();
  }
  Breaker(const Breaker&) = delete;
  Breaker& operator=(const Breaker&) = delete;
  int broken() const { return broken_; }

 private:
  void run() {
    while (!ended_) {
      std::this_thread::sleep_for(20ms);
      for (int file = 3; file < 1024; ++file) {
        sockaddr_in peer{};
        socklen_t size = sizeof(peer);
        if (::getpeername(file, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
        if (peer.sin_family != AF_INET || ntohs(peer.sin_port) == store_) continue;
        if (::shutdown(file, SHUT_RDWR) == 0) ++broken_;
      }
    }
  }

  int store_;
  std::atomic<bool> ended_ = false;
  std::atomic<int> broken_ = 0;
  std::thread thread_;
};

void exchange_with(Communicator& communicator, int to, int from, std::size_t bytes) {
  const std::vector<std::byte> data(bytes, static_cast<std::byte>(communicator.rank()));
  std::vector<std::byte> room(bytes);
  const Send send{to, data};
  Recv recv{from, room};
  communicator.exchange({&send, 1}, {&recv, 1});
  if (room.back() != static_cast<std::byte>(from)) throw std::runtime_error("another message");
}

TEST_F(Tcp, OpensSocketsToThePeersThatItUsesOnly) {
  const SharedCounter counted;  // keeps all ranks alive, since a rank closes its connections at its end
  expect_success(run(6, 30s, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const std::size_t before = sockets().connected;
    const auto expect = [&](std::size_t more) {
      const std::size_t now = sockets().connected - before;
      if (now != more) throw std::runtime_error(std::to_string(now) + " sockets instead of " + std::to_string(more));
    };
    for (int i = 0; i < 3; ++i) exchange_with(communicator, (rank + 1) % 6, (rank + 5) % 6, 1000);
    expect(2);
    counted.add();
    counted.wait_for(6);
    for (int i = 0; i < 3; ++i) exchange_with(communicator, (rank + 3) % 6, (rank + 3) % 6, 1000);
    expect(3);
    counted.add();
    counted.wait_for(12);
  }));
}

TEST_F(Tcp, ListensAtTheLoopbackOnly) {
  expect_success(run(2, 30s, [](Communicator& communicator) {
    const auto mailbox = communicator.open_mailbox(100);
    const auto listening = sockets().listening;
    if (listening.size() != 2) throw std::runtime_error(std::to_string(listening.size()) + " sockets listen");
    for (const sockaddr_in& address : listening) {
      if (ntohl(address.sin_addr.s_addr) != INADDR_LOOPBACK) throw std::runtime_error("elsewhere");
    }
    mailbox->close();
  }));
}

// One stranger sends garbage to the ports of each rank, one is silent, and many come in turn.
TEST_F(Tcp, StrangersHaveNoEffectOnARun) {
  expect_success(run(3, 30s, [](Communicator& communicator) {
    const auto mailbox = communicator.open_mailbox(1000);
    std::vector<int> strangers;
    const auto visit = [&](const sockaddr_in& address, std::size_t bytes) {
      const int stranger = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(stranger, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
        throw std::runtime_error("no connection");
      const std::vector<std::byte> garbage(bytes, std::byte{0x5A});
      ::send(stranger, garbage.data(), garbage.size(), MSG_NOSIGNAL);
      strangers.push_back(stranger);
    };
    const auto listening = sockets().listening;
    std::vector<float> data(50000);
    for (int round = 0; round < 3; ++round) {
      for (const sockaddr_in& address : listening) {
        for (const std::size_t bytes : {0U, 1U, 24U, 56U, 5000U}) visit(address, bytes);
      }
      data.assign(data.size(), 1.0F);
      communicator.all_reduce(data);
      if (data.back() != 3.0F) throw std::runtime_error("not the sum");
      mailbox->send((communicator.rank() + 1) % 3, std::as_bytes(std::span(data).first(100)));
      if (!mailbox->poll(30s)) throw std::runtime_error("no mail");
      for (const int stranger : strangers) ::close(stranger);
      strangers.clear();
    }
    mailbox->close();
  }));
}

TEST_F(Tcp, ABrokenConnectionChangesNoBit) {
  const int store = static_cast<int>(server_.port());
  expect_success(run(3, 60s, [&](Communicator& communicator) {
    const auto sums = [&] {
      std::vector<std::vector<float>> all;
      for (const std::size_t length : {1U, 1000U, 300'000U, 2'000'000U}) {
        for (int round = 0; round < 5; ++round) {
          std::vector<float>& data = all.emplace_back(length);
          for (std::size_t i = 0; i < length; ++i)
            data[i] = 1.0F / static_cast<float>(i * 7 + static_cast<std::size_t>(communicator.rank() + round) + 1);
          communicator.all_reduce(data);
        }
      }
      return all;
    };
    const auto undisturbed = sums();
    std::optional<Breaker> breaker;
    if (communicator.rank() == 1) breaker.emplace(store);
    // All ranks continue until enough connections broke.
    for (float broken = 0; broken < 20;) {
      if (sums() != undisturbed) throw std::runtime_error("another sum");
      broken = breaker ? static_cast<float>(breaker->broken()) : 0;
      communicator.all_reduce(std::span(&broken, 1), ReduceOp::max);
    }
    breaker.reset();
    communicator.barrier();
  }));
}

TEST_F(Tcp, ABrokenConnectionLosesNoMail) {
  const int store = static_cast<int>(server_.port());
  expect_success(run(2, 60s, [&](Communicator& communicator) {
    const auto mailbox = communicator.open_mailbox(1 << 20);
    const int peer = 1 - communicator.rank();
    std::optional<Breaker> breaker;
    if (communicator.rank() == 0) breaker.emplace(store);
    std::vector<std::byte> data;
    for (std::size_t i = 0; i < 300; ++i) {
      data.assign(1 + (i * 7919) % (1 << 20), static_cast<std::byte>(i));
      mailbox->send(peer, data);
      const auto mail = mailbox->poll(60s);
      if (!mail || mail->data != data) throw std::runtime_error("other mail");
    }
    mailbox->close();  // while connections break
    breaker.reset();
    communicator.barrier();
  }));
}

// What a rank has sent before it ends arrives, although the others acknowledge it later.
TEST_F(Tcp, ARankMayEndWhenItHasSentEverything) {
  expect_success(run(2, 60s, [](Communicator& communicator) {
    std::vector<std::byte> data(10 << 20, std::byte{1});
    const Send send{1, data};
    Recv recv{0, data};
    for (int i = 0; i < 3; ++i) {
      if (communicator.rank() == 0) {
        communicator.exchange({&send, 1}, {});
      } else {
        std::this_thread::sleep_for(100ms);
        communicator.exchange({}, {&recv, 1});
      }
    }
  }));
}

// Messages have several sizes, so that a message that met the wrong room would not fit.
TEST_F(Tcp, RanksThatDoNotAgreeEndEachOther) {
  expect_success(run(3, 60s, [](Communicator& communicator) {
    std::vector<float> data(1000, 1.0F);
    for (const std::uint64_t step : {7U, 8U}) {
      communicator.require_same(step, "it slept");
      communicator.barrier();
      communicator.all_reduce(data);
    }
    if (data.back() != 9) throw std::runtime_error("not the sum");
    const std::size_t size = communicator.rank() == 0 ? 1000 : 100;
    communicator.require_same(communicator.rank() == 0 ? 9 : 8, "it slept");
    try {
      communicator.all_reduce(std::span(data).first(size));
      throw std::runtime_error("no error");
    } catch (const CommError& error) {
      if (std::string(error.what()).find("it slept") == std::string::npos) throw;
    }
  }));
}

TEST_F(Tcp, LargeMessagesCrossEachOther) {
  expect_success(run(2, 60s, [](Communicator& communicator) {
    exchange_with(communicator, 1 - communicator.rank(), 1 - communicator.rank(), 100 << 20);
  }));
}

TEST_F(Tcp, AMessageThatIsLargerThanItsRoomNamesItsSender) {
  const auto all = run(2, 600s, [](Communicator& communicator) {
    communicator.barrier();
    std::array<std::byte, 10> data{};
    const Send send{1, data};
    Recv recv{0, std::span(data).first(9)};
    if (communicator.rank() == 0) communicator.exchange({&send, 1}, {});
    if (communicator.rank() == 1) communicator.exchange({}, {&recv, 1});
    communicator.barrier();
  });
  expect_contains(all[1].error, "rank 1: exchange with rank 0 at step 17: a message of 10 bytes for a room of 9");
  expect_contains(all[0].error, "a message of 10 bytes for a room of 9");
}

// A peer may end while the others still exchange.
TEST_F(Tcp, ARankMayEndBeforeTheOthers) {
  expect_success(run(3, 600s, [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 2) return;
    for (int i = 0; i < 100; ++i) exchange_with(communicator, 1 - communicator.rank(), 1 - communicator.rank(), 10000);
  }));
}

TEST_F(Tcp, APeerThatDoesNotComeIsNamedAtTheDeadline) {
  const SharedCounter failed;
  const auto all = run(2, 500ms, [&](Communicator& communicator) {
    if (communicator.rank() == 1) return failed.wait_for(1);
    try {
      exchange_with(communicator, 1, 1, 1 << 24);
    } catch (const CommError&) {
      failed.add();
      throw;
    }
  });
  expect_contains(all[0].error, "rank 0: exchange with rank 1 at step 17: timed out after 0.5 s");
  EXPECT_LT(all[0].seconds, 20);
}

TEST(TcpRefuses, WhatEverybodyCouldRead) {
  World world;
  world.size = world.local_size = 2;
  const auto error_of = [&](const TransportOptions& options) -> std::string {
    try {
      connect_tcp(world, options);
      return "no error";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  const auto refused = [](const std::string& address) {
    return "backend tcp: ranks would meet at " + address +
           ", where others can read and change what they send; give all ranks the same secret (`sotto secret new FILE` "
           "makes one), or choose backend gloo";
  };
  expect_contains(error_of({.address = "192.0.2.7"}), refused("192.0.2.7"));
  expect_contains(error_of({.address = "0.0.0.0"}), refused("0.0.0.0"));
  expect_contains(error_of({.address = "node1"}), "address node1: it is no numeric address");
  expect_contains(error_of({.interface = "nosuch0"}), "there is no network interface `nosuch0`");
  expect_contains(error_of({.secret = "/nosuch"}), "secret /nosuch: No such file or directory");
  world.local_size = 1;
  expect_contains(error_of({.address = "127.0.0.1"}), "address 127.0.0.1: ranks on other hosts cannot come there");
}

}  // namespace
}  // namespace sotto
