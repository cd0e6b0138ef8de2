// What happens on the way: bits that change, connections that swallow bytes. Every message comes once, as it was sent.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/core/timer.h"
#include "tests/comm/middlebox.h"
#include "tests/comm/tcp_ranks.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::message;
using test::Middlebox;
using test::Rank;
using test::tapped;
using Deed = Middlebox::Deed;

// A connection that is silent for two seconds is replaced.
constexpr std::chrono::milliseconds deadline = 8s;

struct Harm {
  Deed deed;
  std::size_t way, at;
  std::size_t lane = 0;
};

// Two ranks that swap messages, and a machine that does some harm on the way to rank 0.
struct Pair {
  Pair(asio::io_context& io, std::shared_ptr<const Tls> tls, int streams, const Harm& what) : harm(what) {
    for (const int rank : {0, 1}) ranks.push_back(std::make_unique<Rank>(io, rank, 2, tls, ranks, deadline, streams));
    std::string& place = ranks[0]->place;
    std::string all;
    for (std::size_t lane = 0, begin = 0; begin <= place.size(); ++lane) {
      const std::size_t end = std::min(place.find('\n', begin), place.size());
      const std::string one = place.substr(begin, end - begin);
      const bool harmed = lane == harm.lane;
      boxes.emplace_back(io, read_tcp_place(one).port, harm.deed, harm.way, harm.at, harmed ? 1 : 0);
      all += (lane > 0 ? "\n" : "") + tapped(one, boxes.back().port());
      begin = end + 1;
    }
    place = all;
    ranks[1]->place.clear();  // so the first connections go through the machine
    ranks[1]->lines.resume(0);
  }
  // Messages only go once rank 1 came through the machine, or was harmed. True when it is over.
  bool go(const std::vector<Bytes>& messages) {
    const bool here = ranks[1]->lines.connections() > 0 || boxes[0].done > 0;
    if (here && !std::exchange(sent, true)) {
      for (const int from : {1, 0}) {
        for (const Bytes& one : messages) {
          ranks[static_cast<std::size_t>(from)]->lines.send(1 - from, TcpFrame::Kind::message, one);
        }
      }
    }
    for (const auto& rank : ranks) {
      if (!rank->losses.empty()) loss = rank->losses.begin()->second;
    }
    if (loss.empty() && (!sent || !complete(messages.size()))) return false;
    for (const auto& rank : ranks) rank->lines.close();
    for (Middlebox& box : boxes) box.close();
    return true;
  }
  bool complete(std::size_t messages) const {
    return ranks[0]->came[1].size() >= messages && ranks[1]->came[0].size() >= messages &&
           ranks[0]->messages_sent == static_cast<int>(messages) &&
           ranks[1]->messages_sent == static_cast<int>(messages);
  }
  std::string text() const {
    return fmt::format("deed {} way {} at {} lane {}: done {}, {} connections", static_cast<int>(harm.deed), harm.way,
                       harm.at, harm.lane, boxes[harm.lane].done, boxes[harm.lane].connections);
  }

  Harm harm;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::deque<Middlebox> boxes;  // by lane
  bool sent = false;
  std::string loss;
};

class OnTheWay : public testing::Test {
 protected:
  // Many harms at once: a pair of ranks for each.
  void expect_mended(const std::vector<Harm>& harms, const std::vector<Bytes>& messages) {
    constexpr std::size_t at_once = 80;
    asio::io_context io{1};
    std::deque<Pair> pairs;
    const auto end = Clock::now() + 5min;
    std::vector<Pair*> under_way;
    while ((pairs.size() < harms.size() || !under_way.empty()) && Clock::now() < end) {
      while (pairs.size() < harms.size() && under_way.size() < at_once) {
        under_way.push_back(&pairs.emplace_back(io, tls_, streams_, harms[pairs.size()]));
      }
      io.run_for(1ms);
      std::erase_if(under_way, [&](Pair* pair) { return pair->go(messages); });
    }
    EXPECT_TRUE(under_way.empty()) << under_way.front()->text();
    for (Pair& pair : pairs) {
      EXPECT_EQ(pair.loss, "") << pair.text();
      for (const std::size_t to : {0U, 1U}) {
        Rank& rank = *pair.ranks[to];
        EXPECT_TRUE(std::ranges::equal(rank.came[static_cast<int>(1 - to)], messages)) << pair.text();
      }
      EXPECT_EQ(pair.boxes[pair.harm.lane].done, 1) << pair.text();
    }
  }

  std::shared_ptr<const Tls> tls_;
  int streams_ = 1;
};

std::vector<Harm> at_each_of(std::size_t bytes) {
  std::vector<Harm> harms;
  for (const std::size_t way : {0U, 1U}) {
    for (std::size_t at = 0; at < bytes; ++at) harms.push_back({Deed::flip, way, at});
  }
  return harms;
}

// From hello and welcome to the data of the second message.
TEST_F(OnTheWay, ABitThatChangesIsFound) {
  testing::internal::CaptureStderr();
  expect_mended(at_each_of(TcpHello::bytes + 3 * TcpFrame::bytes + 10),
                {message(1, 1), message(0, 0), message(300, 2)});
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("sotto: rank 0: what rank 1 sent was changed on the way: the header of frame 1 has a wrong "
                     "checksum; it comes again over a new connection\n"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("the data of frame 1 have a wrong checksum"), std::string::npos) << log;
  EXPECT_NE(log.find(": its hello was changed on the way\n"), std::string::npos) << log;
}

TEST_F(OnTheWay, ABitThatChangesInALongMessageIsFound) {
  testing::internal::CaptureStderr();
  std::vector<Harm> harms;
  for (const std::size_t way : {0U, 1U}) {
    for (const std::size_t at : {std::size_t{1000}, std::size_t{20'000}, TcpFrame::piece, TcpFrame::piece + 235,
                                 TcpFrame::piece + 300, std::size_t{700'000}}) {
      harms.push_back({Deed::flip, way, at});
    }
  }
  expect_mended(harms, {message(5, 1), message(1'500'000, 2), message(5, 3)});
  testing::internal::GetCapturedStderr();
}

TEST_F(OnTheWay, ABitThatChangesInAStripeIsFound) {
  testing::internal::CaptureStderr();
  streams_ = 3;
  std::vector<Harm> harms;
  for (const std::size_t lane : {0U, 1U, 2U}) {
    for (const std::size_t way : {0U, 1U}) {
      for (const std::size_t at : {30U, 190U, 210U, 230U, 250U, 300U, 100'000U, 300'000U}) {
        harms.push_back({Deed::flip, way, at, lane});
      }
    }
  }
  expect_mended(harms, {message(10, 1), message(1'000'000, 2), message(300'000, 3)});
  testing::internal::GetCapturedStderr();
}

TEST_F(OnTheWay, ABitThatChangesInAHandshakeIsNotTheEnd) {
  testing::internal::CaptureStderr();
  tls_ = std::make_shared<const Tls>(Secret{std::byte{1}, std::byte{2}});
  expect_mended(at_each_of(600), {message(1, 1), message(1000, 2)});
  testing::internal::GetCapturedStderr();
}

// With a secret, or without one.
class Swallowed : public OnTheWay, public testing::WithParamInterface<bool> {
 protected:
  Swallowed() {
    if (GetParam()) tls_ = std::make_shared<const Tls>(Secret{std::byte{1}, std::byte{2}});
  }
  static std::vector<Harm> harms(std::size_t lanes) {
    std::vector<Harm> all;
    for (const Deed deed : {Deed::swallow, Deed::choke}) {
      for (const std::size_t way : {0U, 1U}) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          for (const std::size_t at : {0U, 10U, 150U, 200U, 250U, 500U, 1000U, 150'000U})
            all.push_back({deed, way, at, lane});
        }
      }
    }
    return all;
  }
};

TEST_P(Swallowed, ConnectionsAreReplaced) {
  expect_mended(harms(1), {message(1, 1), message(0, 0), message(700'000, 2), message(5, 3)});
}

TEST_P(Swallowed, ConnectionsOfStripesAreReplaced) {
  streams_ = 3;
  expect_mended(harms(3), {message(10, 1), message(600'000, 2), message(100, 3)});
}

// Rank 1 has such long steps that it would tolerate ten seconds of silence; rank 0, which waits for it, two.
TEST(Silence, OfARankWithLongStepsIsNoLongerThanOthersTolerate) {
  asio::io_context io{1};
  const Deadline slow(deadline);
  slow.lap();
  std::this_thread::sleep_for(4s);
  slow.lap();
  std::vector<std::unique_ptr<Rank>> ranks;
  ranks.push_back(std::make_unique<Rank>(io, 0, 2, nullptr, ranks, deadline));
  ranks.push_back(std::make_unique<Rank>(io, 1, 2, nullptr, ranks, slow));
  Middlebox box(io, read_tcp_place(ranks[0]->place).port, Deed::cut, 0, 0, 0);
  ranks[0]->place = tapped(ranks[0]->place, box.port());
  ranks[1]->place.clear();
  ranks[1]->lines.resume(0);
  ranks[0]->lines.resume(1);
  io.run_for(5s);
  EXPECT_EQ(box.connections, 1);
  for (const auto& rank : ranks) rank->lines.close();
}

INSTANTIATE_TEST_SUITE_P(Secret, Swallowed, testing::Bool(),
                         [](const auto& one) { return one.param ? "with" : "without"; });

}  // namespace
}  // namespace sotto
