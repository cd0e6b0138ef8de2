#include "sotto/comm/group/tcp_store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/open_file.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds patience = 60s;
const Secret ours{std::byte{1}, std::byte{2}}, other{std::byte{3}};

template <class Exception>
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "`" << part << "` is not in: " << text;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A connection of a stranger.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = loopback(port);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  void say(const std::string& bytes) const {
    static_cast<void>(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  void say(const StoreRequest& head, const std::string& data = "") const {
    std::string bytes(sizeof(head), '\0');
    std::memcpy(bytes.data(), &head, sizeof(head));
    say(bytes + data);
  }
  // What the server says until it closes the connection.
  std::string heard() const {
    std::string all;
    std::array<char, 4096> room{};
    for (ssize_t count = 0; (count = ::recv(socket_.get(), room.data(), room.size(), 0)) > 0;) {
      all.append(room.data(), static_cast<std::size_t>(count));
    }
    return all;
  }
  StoreReply reply() const {
    StoreReply reply;
    EXPECT_EQ(::recv(socket_.get(), &reply, sizeof(reply), MSG_WAITALL), ssize_t{sizeof(reply)});
    return reply;
  }
  void say_hello() const {
    say(StoreRequest());
    EXPECT_EQ(reply().kind, StoreReply::Kind::done);
  }
  int socket() const { return socket_.get(); }
  void stops_speaking() const { ::shutdown(socket_.get(), SHUT_WR); }

 private:
  Descriptor socket_;
};

// A port at which somebody listens, who is no server of a store.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_ = loopback(0);
    socklen_t length = sizeof(address_);
    ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address_), length);
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address_), &length);
    ::listen(socket_.get(), 100);
  }
  std::uint16_t port() const { return ntohs(address_.sin_port); }
  // Answers each connection with these bytes, and closes it unless it `stays`; if there are none, at once.
  void answer(const std::string& bytes, bool stays = false) {
    thread_ = std::jthread([this, bytes, stays](const std::stop_token& stop) {
      std::vector<Descriptor> guests;
      while (!stop.stop_requested()) {
        pollfd polled{socket_.get(), POLLIN, 0};
        if (::poll(&polled, 1, 10) <= 0) continue;
        Descriptor guest(::accept(socket_.get(), nullptr, nullptr));
        std::array<char, 1000> room{};
        if (bytes.empty() || ::recv(guest.get(), room.data(), room.size(), 0) < 0) continue;
        static_cast<void>(::send(guest.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
        if (stays) guests.push_back(std::move(guest));
      }
    });
  }

 private:
  Descriptor socket_;
  sockaddr_in address_{};
  std::jthread thread_;
};

// With a secret, or without one.
class TcpStoreTest : public testing::TestWithParam<bool> {
 protected:
  std::optional<Secret> secret() const { return GetParam() ? std::optional(ours) : std::nullopt; }
  StorePtr join(std::chrono::milliseconds deadline = patience) const {
    return stores_.join("127.0.0.1", server_.port, deadline, {});
  }

  TcpStores stores_{secret()};
  ServedStore server_ = stores_.serve("127.0.0.1", 0, patience, {});
};
INSTANTIATE_TEST_SUITE_P(Both, TcpStoreTest, testing::Bool(),
                         [](const auto& with) { return with.param ? "WithASecret" : "Plain"; });

TEST_P(TcpStoreTest, KeepsWhatAnyOfItsClientsWrote) {
  const StorePtr one = join(), two = join();
  const std::string key("a \0key\xff\n", 8), value("\0\x80 a value\n", 11);
  EXPECT_FALSE(two->check(key));
  one->set(key, value);
  for (const StorePtr& each : {one, two, server_.store}) {
    EXPECT_TRUE(each->check(key));
    EXPECT_EQ(each->get(key), value);
  }
  two->set("", "");
  EXPECT_TRUE(one->check(""));
  EXPECT_EQ(one->get(""), "");
  EXPECT_EQ(one->add("sum", 5), 5);
  EXPECT_EQ(server_.store->add("sum", -7), -2);
  EXPECT_EQ(two->get("sum"), "-2");
  EXPECT_EQ(one->compare_set("word", "expected", "desired"), "expected");
  EXPECT_FALSE(one->check("word"));
  EXPECT_EQ(one->compare_set("word", "", "first"), "first");
  EXPECT_EQ(two->compare_set("word", "", "second"), "first");
  EXPECT_EQ(two->compare_set("word", "first", "second"), "second");
  two->remove("word");
  one->remove("word");
  EXPECT_FALSE(server_.store->check("word"));
}

TEST_P(TcpStoreTest, CarriesLongValues) {
  const StorePtr store = join();
  std::string value(StoreLimits().request - 1, 'x');
  for (std::size_t i = 0; i < value.size(); i += 1000) value[i] = static_cast<char>(i / 1000);
  store->set("k", value);
  EXPECT_EQ(store->get("k"), value);
  expect_contains(error_of<CommError>([&] { store->set("kk", value); }), "takes at most 16777216 bytes at a time");
  EXPECT_EQ(store->get("k"), value);
}

TEST_P(TcpStoreTest, AGetWaitsForItsKey) {
  const StorePtr store = join();
  std::jthread writer([&] {
    const StorePtr their = join();
    while (store->add("asked", 0) == 0) std::this_thread::yield();
    their->set("key", "value");
  });
  store->add("asked", 1);
  EXPECT_EQ(store->get("key"), "value");
  error_of<MissingKey>([&] { join()->await("no such key", Clock::now()); });
}

TEST_P(TcpStoreTest, SaysWhyItRefusesARequest) {
  const StorePtr store = join();
  store->set("word", "12 apples");
  expect_contains(error_of<CommError>([&] { store->add("word", 1); }),
                  "refuses a request: nothing can be added to `word`");
  store->set("many", "9223372036854775807");
  expect_contains(error_of<CommError>([&] { store->add("many", 1); }), "it is no number, or too large");
  EXPECT_EQ(store->add("many", -1), 9223372036854775806);
}

TEST_P(TcpStoreTest, ThreadsMayShareAClient) {
  const StorePtr store = join();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 100; ++n) store->add("sum", 1);
      });
    }
  }
  EXPECT_EQ(store->add("sum", 0), 400);
}

TEST_P(TcpStoreTest, SaysThatItsServerIsGone) {
  const StorePtr store = join();
  server_.store.reset();
  for (int i = 0; i < 2; ++i) error_of<StoreClosed>([&] { store->check("key"); });
  expect_contains(error_of<CommError>([&] { join(2s); }), "nobody serves the ranks' meeting place at 127.0.0.1:");
}

// The store ends with the last that uses it, not with its service.
TEST_P(TcpStoreTest, OutlivesItsService) {
  auto stores = std::make_unique<TcpStores>(secret());
  const ServedStore served = stores->serve("localhost", 0, patience, {});
  const StorePtr client = stores->join("localhost", served.port, patience, {});
  stores.reset();
  client->set("key", "value");
  EXPECT_EQ(served.store->get("key"), "value");
}

TEST_P(TcpStoreTest, ARankWithAnotherSecretIsToldSo) {
  testing::internal::CaptureStderr();
  const std::string error =
      error_of<ConfigError>([&] { TcpStores(other).join("127.0.0.1", server_.port, patience, {}); });
  expect_contains(error, GetParam() ? "has another secret; give all the same one"
                                    : "is it a meeting place without a secret, or another program?");
  if (GetParam()) {
    const std::string bare =
        error_of<ConfigError>([&] { plain_stores().join("127.0.0.1", server_.port, patience, {}); });
    expect_contains(bare, "wants a secret, and this process has none; give all the same one");
  }
  join()->set("key", "value");
  server_.store.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.starts_with("sotto: the ranks' meeting place: refused a connection from 127.0.0.1 port "), GetParam())
      << log;
}

// As a rank with a secret whose coordinator has none.
TEST_P(TcpStoreTest, ARankMayAcceptThatAServerHasNoSecret) {
  const TcpStores accepting(ours, TcpStores::Plain::accepted);
  accepting.join("127.0.0.1", server_.port, patience, {})->set("key", "value");
  EXPECT_EQ(server_.store->get("key"), "value");
}

TEST_P(TcpStoreTest, ServesNoOtherMachine) {
  const std::string error = error_of<CommError>([&] { stores_.serve("203.0.113.7", 0, 300ms, {}); });
  expect_contains(error, "nothing answers there; is it an address of this machine?");
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  EXPECT_NE(stores_.serve(host.data(), 0, patience, {}).port, 0);
}

TEST_P(TcpStoreTest, SaysWhatAnswersInItsPlace) {
  const auto error_at = [&](const Listener& listener, std::chrono::milliseconds deadline) {
    return error_of<Error>([&] { stores_.join("127.0.0.1", listener.port(), deadline, {}); });
  };
  Listener silent, closing, talking, deaf;
  expect_contains(error_at(silent, 300ms), "is no meeting place of ranks: it does not answer, for 0.3");
  closing.answer("");
  expect_contains(error_at(closing, 2s), "is no meeting place of ranks: it ");
  talking.answer(std::string(1000, 'x'));
  expect_contains(error_at(talking, patience), GetParam() ? "shows no secret" : "it answers something else, for ");
  expect_contains(error_of<Stopped>([&] { stores_.join("127.0.0.1", deaf.port(), patience, [] { return SIGINT; }); }),
                  "stopped");
  expect_contains(error_of<PortInUse>([&] { stores_.serve("127.0.0.1", silent.port(), patience, {}); }),
                  "is in use by another program");
  expect_contains(error_of<PortInUse>([&] { stores_.serve("203.0.113.7", silent.port(), patience, {}); }),
                  "is in use by another program");
}

// Whatever strangers say, the server serves its members.
TEST_P(TcpStoreTest, StrangersHaveNoEffect) {
  testing::internal::CaptureStderr();
  const StorePtr store = join();
  std::mt19937 random(1);
  std::vector<Stranger> stay;
  for (int i = 0; i < 1000; ++i) {
    const Stranger stranger(server_.port);
    std::string garbage(random() % 100, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    if (i % 2 == 0) {  // almost a request
      StoreRequest head{.kind = static_cast<StoreRequest::Kind>(random() % 9), .key_bytes = i % 3 == 0 ? 1 << 31 : 3U};
      if (i % 4 == 0) stranger.say(StoreRequest());
      stranger.say(head, garbage);
    } else {
      stranger.say(garbage);
    }
    if (i % 5 == 0) stay.emplace_back(server_.port);
    if (i % 100 == 0) {
      EXPECT_EQ(store->add("sum", 1), i / 100 + 1);
    }
  }
  EXPECT_EQ(join()->add("sum", 0), 10);
  testing::internal::GetCapturedStderr();
}

TEST_P(TcpStoreTest, ManyGuestsGiveWayToAMember) {
  testing::internal::CaptureStderr();
  std::vector<Stranger> guests;
  for (std::size_t i = 0; i <= StoreLimits().guests; ++i) guests.emplace_back(server_.port);
  join()->set("key", "value");
  EXPECT_EQ(guests.front().heard(), "");  // closed
  testing::internal::GetCapturedStderr();
}

StoreLimits small() {
  StoreLimits limits;
  limits.of_an_address = 3;
  limits.request = 1000;
  limits.stored = 4000;
  limits.under_way = 2000;
  return limits;
}

class SmallStore : public testing::Test {
 protected:
  StorePtr join() const { return plain_stores().join("127.0.0.1", server_.port, patience, {}); }
  void SetUp() override { testing::internal::CaptureStderr(); }
  void TearDown() override {
    server_.store.reset();
    testing::internal::GetCapturedStderr();
  }
  ServedStore server_ = TcpStores(std::nullopt, TcpStores::Plain::never, small()).serve("127.0.0.1", 0, patience, {});
};

TEST_F(SmallStore, IsFullAtSomeTime) {
  const StorePtr store = join();
  const std::string value(900, 'x');
  for (const char* key : {"a", "b", "c"}) store->set(key, value);
  expect_contains(error_of<CommError>([&] { store->set("d", value); }), "the ranks' store is full");
  expect_contains(error_of<CommError>([&] { store->compare_set("d", "", value); }), "the ranks' store is full");
  store->set("a", value);
  store->set("a", "");
  store->remove("b");
  store->set("d", value);
  EXPECT_EQ(store->get("d"), value);
}

TEST_F(SmallStore, HasFewConnectionsOfAnAddress) {
  std::vector<StorePtr> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(join());
  EXPECT_EQ(Stranger(server_.port).heard(), "");
  clients.pop_back();
  const StorePtr again = join();  // tries again until the server knows that one has gone
  again->set("key", "value");
  EXPECT_EQ(clients.front()->get("key"), "value");
}

TEST_F(SmallStore, RefusesLongRequestsWithAReason) {
  const Stranger stranger(server_.port);
  stranger.say_hello();
  stranger.say({.kind = StoreRequest::Kind::set, .key_bytes = 1001});
  stranger.stops_speaking();
  expect_contains(stranger.heard(), "its request is too long");
  expect_contains(error_of<CommError>([&] { join()->set("key", std::string(1001, 'x')); }),
                  "refuses a request: its request is too long");
}

// Bytes that came, of requests that may never be complete, are bounded as well.
TEST_F(SmallStore, HoldsFewBytesOfUnfinishedRequests) {
  std::vector<Stranger> strangers;
  std::vector<pollfd> polled;
  for (int i = 0; i < 3; ++i) {
    strangers.emplace_back(server_.port);
    strangers.back().say_hello();
    strangers.back().say({.kind = StoreRequest::Kind::set, .key_bytes = 900}, "xxx");
    polled.push_back({strangers.back().socket(), POLLIN, 0});
  }
  ASSERT_EQ(::poll(polled.data(), polled.size(), -1), 1);  // whichever the server heard last
  for (std::size_t i = 0; i < 3; ++i) {
    if (polled[i].revents == 0) continue;
    strangers[i].stops_speaking();
    expect_contains(strangers[i].heard(), "are under way");
  }
}

TEST(SlowStore, ClosesSilentConnections) {
  testing::internal::CaptureStderr();
  StoreLimits limits;
  limits.silence = 50ms;
  for (const auto& secret : {std::optional<Secret>(), std::optional(ours)}) {
    const ServedStore server = TcpStores(secret, TcpStores::Plain::never, limits).serve("127.0.0.1", 0, patience, {});
    EXPECT_EQ(Stranger(server.port).heard(), "");
    const Stranger half(server.port);
    half.say("sstq");
    EXPECT_EQ(half.heard(), "");
    if (secret) continue;
    const Stranger later(server.port);
    later.say_hello();
    later.say({.kind = StoreRequest::Kind::set, .key_bytes = 10}, "half");
    EXPECT_EQ(later.heard(), "");
  }
  testing::internal::GetCapturedStderr();
}

TEST(SlowStore, MembersMayBeSilent) {
  StoreLimits limits;
  limits.silence = 1s;
  const TcpStores stores(ours, TcpStores::Plain::never, limits);
  const ServedStore server = stores.serve("127.0.0.1", 0, patience, {});
  const StorePtr store = stores.join("127.0.0.1", server.port, patience, {});
  std::this_thread::sleep_for(1500ms);
  store->set("key", "value");
  EXPECT_EQ(store->get("key"), "value");
}

// The local addresses at which this machine listens on a port, as /proc/net/tcp and tcp6 write them.
std::vector<std::string> listening_at(int port) {
  std::vector<std::string> addresses;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      const auto colon = local.find(':');
      if (state != "0A" || std::stoi(local.substr(colon + 1), nullptr, 16) != port) continue;
      addresses.push_back(local.substr(0, colon));
    }
  }
  return addresses;
}

TEST(StoreServer, ListensOnTheLoopbackAloneUnlessToldOtherwise) {
  EXPECT_EQ(listening_at(StoreServer(plain_stores(), "127.0.0.1").port()), std::vector<std::string>{"0100007F"});
  for (const std::string& address : listening_at(StoreServer(plain_stores(), "localhost").port())) {
    EXPECT_TRUE(address == "0100007F" || address == "00000000000000000000000001000000") << address;
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  for (const std::string& address : listening_at(StoreServer(plain_stores(), host.data()).port())) {
    EXPECT_EQ(address.find_first_not_of('0'), address.npos) << "at one address: " << address;
  }
}

TEST(StoreServer, SaysAtOnceThatAHostIsUnknown) {
  expect_contains(error_of<ConfigError>([] { StoreServer(plain_stores(), "no-such-host.invalid"); }),
                  "the host `no-such-host.invalid`");
}

TEST(StoreServer, NamesAPortInUse) {
  const Listener listener;
  expect_contains(error_of<PortInUse>([&] { StoreServer(plain_stores(), "127.0.0.1", listener.port()); }),
                  "port " + std::to_string(listener.port()) + " is in use by another program");
}

// A request to a server that is stopped, or a machine that is gone.
TEST(TcpStore, BoundsEveryRequest) {
  const StoreReply hello;
  std::string bytes(sizeof(hello), '\0');
  std::memcpy(bytes.data(), &hello, sizeof(hello));
  Listener listener;
  listener.answer(bytes, true);
  const StorePtr store = plain_stores().join("127.0.0.1", listener.port(), 2s, {});
  expect_contains(error_of<CommError>([&] { store->check("key"); }), "does not answer, for 3");
  expect_contains(error_of<CommError>([&] { store->check("key"); }), "did not answer before");
}

}  // namespace
}  // namespace sotto
