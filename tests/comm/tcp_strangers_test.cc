// Strangers that connect to a rank's door: the run continues, and the log says who was refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "sotto/comm/tcp/refusals.h"
#include "tests/comm/tcp_ranks.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::message;
using test::Ranks;

// With a secret, or without one.
class Strangers : public Ranks, public testing::WithParamInterface<bool> {
 protected:
  Strangers() : Ranks(GetParam() ? std::make_shared<const Tls>(Secret{std::byte{1}, std::byte{2}}) : nullptr) {}

  void expect_mail(int from, int to) {
    const Bytes data = message(1000, 2);
    send(from, to, data);
    run_until([&] { return !rank(to).came[from].empty(); });
    EXPECT_EQ(rank(to).came[from].front(), data);
    rank(to).came[from].clear();
  }
};

// In turn, each with garbage: so many connections leave nothing behind, and the log has a line a second.
TEST_P(Strangers, ManyInTurnHaveNoEffect) {
  start(2);
  expect_mail(1, 0);
  const auto begun = Clock::now();
  testing::internal::CaptureStderr();
  const Bytes garbage = message(200, 1);
  for (int i = 0; i < 10'000; ++i) {
    auto socket = stranger(0);
    asio::write(socket, asio::buffer(garbage));
    bool closed = false;
    Bytes answer(1000);
    asio::async_read(socket, asio::buffer(answer),
                     [&](const asio::error_code& error, std::size_t) { closed = bool(error); });
    run_until([&] { return closed; });
    if (i % 1000 == 0) expect_mail(1, 0);
  }
  expect_mail(0, 1);
  const std::string log = testing::internal::GetCapturedStderr();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun).count();
  EXPECT_TRUE(log.starts_with("sotto: rank 0: refused a connection from 127.0.0.1 port ")) << log;
  EXPECT_LE(std::ranges::count(log, '\n'), seconds + 1) << log;
  EXPECT_TRUE(rank(0).losses.empty());
  EXPECT_EQ(rank(0).lines.connections(), 1U);
}

// Each sends a byte now and then, of what might become a hello, and so holds a place of the door.
TEST_P(Strangers, SlowOnesHaveNoEffect) {
  start(3);
  testing::internal::CaptureStderr();
  const Bytes hello = [] {
    Bytes bytes(TcpHello::bytes);
    write_hello({1, 0, 3, 1, 0, 1, {}}, std::span(bytes).first<TcpHello::bytes>());
    return bytes;
  }();
  const Bytes tls_hello{std::byte{22}, std::byte{3}, std::byte{1}, std::byte{2}, std::byte{0}, std::byte{1}};
  const Bytes& words = GetParam() ? tls_hello : hello;
  std::vector<asio::ip::tcp::socket> slow;
  for (std::size_t i = 0; i <= TcpDoor::most_guests; ++i) slow.push_back(stranger(0));
  for (std::size_t byte = 0; byte + 1 < words.size(); ++byte) {
    for (auto& socket : slow) {
      asio::error_code closed;
      asio::write(socket, asio::buffer(words.data() + byte, 1), closed);
    }
    for (int i = 0; i < 1000; ++i) io_.poll_one();
    if (byte == 2) expect_mail(1, 0);
  }
  expect_mail(2, 0);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find(": it did not say who it is, and 64 others came\n"), std::string::npos) << log;
  EXPECT_EQ(rank(0).lines.connections(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Secret, Strangers, testing::Bool(),
                         [](const auto& one) { return one.param ? "with" : "without"; });

TEST(Refusals, GiveALineASecond) {
  std::vector<std::string> lines;
  const auto begin = Clock::now();
  {
    TcpRefusals refusals("rank 3", 2, [&](const std::string& line) { lines.push_back(line); });
    refusals.add_silent("b", begin);
    refusals.add_silent("b", begin);
    refusals.add("a", "why", begin);
    for (int i = 0; i < 10; ++i) refusals.add_silent("b", begin + i * 90ms);
    refusals.add("c", "why not", begin + 1s);
    refusals.add("d", "because", begin + 1999ms);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"rank 3: refused a connection from a: why",
                                             "rank 3: refused a connection from c (10 more before it): why not",
                                             "rank 3: connections refused since the last line: 1"}));
}

TEST(Refusals, NameThoseThatCloseWithoutAWord) {
  std::vector<std::string> lines;
  TcpRefusals refusals("rank 0", 0, [&](const std::string& line) { lines.push_back(line); });
  refusals.add_silent("a");
  EXPECT_EQ(lines,
            (std::vector<std::string>{"rank 0: refused a connection from a: it closed without saying who it is"}));
}

}  // namespace
}  // namespace sotto
