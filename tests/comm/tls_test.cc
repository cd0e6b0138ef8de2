// Connections with a secret: who gets in, and what somebody on the way can read or change.
#include "sotto/comm/tcp/tls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/text.h"
#include "tests/comm/tcp_ranks.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::message;
using test::Rank;
using test::Ranks;
using test::Tap;
using test::tapped;

class PrivateLines : public Ranks {
 protected:
  // The place of a rank that has this secret.
  std::string with_fingerprint(const std::string& place) const {
    return place.substr(0, place.find(" tls")) + " tls" + hex_text(tls_->fingerprint(read_tcp_place(place).key));
  }

  PrivateLines() : Ranks(std::make_shared<const Tls>(Secret{std::byte{1}, std::byte{2}})) {}

  // Both ranks with what they have; rank 0 sends. Returns what it says of rank 1.
  std::string loss_with(std::shared_ptr<const Tls> other) {
    all_.push_back(std::make_unique<Rank>(io_, 0, 2, tls_, all_));
    all_.push_back(std::make_unique<Rank>(io_, 1, 2, std::move(other), all_));
    send(0, 1, {});
    run_until([&] { return rank(0).losses.contains(1); });
    EXPECT_TRUE(rank(1).losses.empty());
    EXPECT_EQ(rank(1).lines.connections(), 0U);
    return rank(0).losses[1];
  }
};

TEST_F(PrivateLines, CarryLargeMessagesInBothDirectionsAtOnce) { cross(); }
TEST_F(PrivateLines, StrangersHaveNoEffect) { crowd(); }

TEST_F(PrivateLines, ChangeTheirKeys) {
  tls_ = std::make_shared<const Tls>(new_secret(), 100'000);  // for messages of 20 and 30 MB
  cross();
}

TEST_F(PrivateLines, OutliveAPeerThatEnds) {
  start(2);
  const Bytes data = message(1 << 20, 1);
  send(0, 1, data);
  run_until([&] { return rank(1).came[0].size() == 1; });
  rank(1).lines.close();
  for (int i = 0; i < 10 && rank(0).losses.empty(); ++i) send(0, 1, data);
  run_until([&] { return rank(0).losses.contains(1); });
  EXPECT_TRUE(rank(0).losses[1].starts_with("the connection ")) << rank(0).losses[1];
}

TEST_F(PrivateLines, LetNobodyInWithAnotherSecret) {
  EXPECT_EQ(loss_with(std::make_shared<const Tls>(Secret{std::byte{1}, std::byte{3}})),
            "its secret is another one; give all ranks the same one");
}

// Whoever says in its place that it has the right one is found out by the handshake.
TEST_F(PrivateLines, LetNobodyInWhoOnlySaysThatItHasTheSecret) {
  testing::internal::CaptureStderr();
  all_.push_back(std::make_unique<Rank>(io_, 0, 2, tls_, all_, 200ms));
  const auto other = std::make_shared<const Tls>(Secret{std::byte{1}, std::byte{3}});
  all_.push_back(std::make_unique<Rank>(io_, 1, 2, other, all_));
  rank(1).place = with_fingerprint(rank(1).place);
  send(0, 1, {});
  run_until([&] { return rank(0).losses.contains(1); });
  EXPECT_TRUE(rank(0).losses[1].starts_with("no connection could be made for ")) << rank(0).losses[1];
  EXPECT_NE(rank(0).losses[1].find(" s: TLS: "), std::string::npos) << rank(0).losses[1];
  EXPECT_EQ(rank(1).lines.connections(), 0U);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(log.starts_with("sotto: rank 1: refused a connection from 127.0.0.1 port ")) << log;
  EXPECT_NE(log.find(": it has another secret, or somebody changed its handshake on the way\n"), std::string::npos)
      << log;
}

TEST_F(PrivateLines, SayThatThePeerHasNoSecret) {
  EXPECT_EQ(loss_with(nullptr), "this rank has a secret, and it has none; give all ranks the same one");
}

TEST_F(PrivateLines, SayThatThisRankHasNone) {
  const auto theirs = std::exchange(tls_, nullptr);
  EXPECT_EQ(loss_with(theirs), "it has a secret, and this rank has none; give all ranks the same one");
}

// Who does not say so in its place is found out by the handshake.
TEST_F(PrivateLines, SpeakToNobodyWithoutTheSecret) {
  all_.push_back(std::make_unique<Rank>(io_, 0, 2, nullptr, all_));
  all_.push_back(std::make_unique<Rank>(io_, 1, 2, tls_, all_));
  rank(0).place = with_fingerprint(rank(0).place);
  const Bytes data = message(100, 1);
  send(1, 0, data);
  for (int i = 0; i < 2000; ++i) io_.poll_one();
  EXPECT_TRUE(rank(0).came.empty());
  EXPECT_EQ(rank(1).messages_sent, 0);
  EXPECT_EQ(rank(0).lines.connections() + rank(1).lines.connections(), 0U);
}

constexpr std::string_view words = "what nobody else should read";

TEST_F(PrivateLines, CannotBeReadOnTheWay) {
  const std::string heard = hear(words);
  EXPECT_EQ(heard.find(words), std::string::npos);
  EXPECT_GE(heard.size(), words.size());
}

class ChangedOnTheWay : public PrivateLines, public testing::WithParamInterface<std::size_t> {
 protected:
  // Rank 1 sends to rank 0, and somebody changes a byte.
  void change() {
    start(2);
    tap_.emplace(io_, read_tcp_place(rank(0).place).port, GetParam());
    rank(0).place = tapped(rank(0).place, tap_->port());
    send(1, 0, data_);
  }
  const Bytes data_ = message(20'000, 5);
  std::optional<Tap> tap_;
};

// The connection ends, and the message comes over another one as it was sent.
TEST_P(ChangedOnTheWay, ConnectionsEnd) {
  change();
  run_until([&] { return !rank(0).came[1].empty(); });
  EXPECT_GT(tap_->heard.size(), GetParam());
  EXPECT_EQ(rank(0).came[1], (std::deque<Bytes>{data_}));
  EXPECT_TRUE(rank(0).losses.empty());
}

INSTANTIATE_TEST_SUITE_P(Bytes, ChangedOnTheWay, testing::Values(700, 900, 5'000, 15'000, 20'000));

TEST(SecretFile, IsReadAsItWasWritten) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("sotto-secret-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder / "secret";
  const Secret secret = new_secret();
  EXPECT_NE(secret, new_secret());
  write_secret(secret, path);
  EXPECT_EQ(read_secret(path), secret);
  EXPECT_EQ(std::filesystem::file_size(path), 65U);
  const auto error_of = [](auto call) -> std::string {
    try {
      call();
      return "no error";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(error_of([&] { write_secret(secret, path); }),
            "secret " + path + ": there is such a file already, and a job may need it");
  EXPECT_EQ(error_of([&] { read_secret(path + "2"); }), "secret " + path + "2: No such file or directory");
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  EXPECT_EQ(error_of([&] { read_secret(path); }), "secret " + path + ": others may read it; `chmod 600` it");
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  for (const std::string& bad : {std::string(), std::string(63, 'a'), std::string(64, 'g'), std::string(66, 'a')}) {
    std::ofstream(path) << bad;
    EXPECT_EQ(error_of([&] { read_secret(path); }),
              "secret " + path + ": it is no secret: 64 hexadecimal digits, as `sotto secret new` writes");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sotto
