// The laws of mailboxes on ranks that are threads, with and without an emulated link.
#include "sotto/comm/mailbox.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <tuple>

#include "mailbox_laws.h"
#include "sotto/comm/emulated/shaped.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/comm/inbox.h"
#include "sotto/comm/queued_mailbox.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

class MailboxLaws : public testing::TestWithParam<std::tuple<bool, int, Law>> {};

TEST_P(MailboxLaws, Hold) {
  const auto& [shaped, ranks, law] = GetParam();
  run_threads(ranks, 60s, [&](Communicator& communicator) {
    if (shaped) {
      law.check(*make_shaped(communicator.clone(), {{10e9, 20e-6, 50e-6}}));
    } else {
      law.check(communicator);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, MailboxLaws,
                         testing::Combine(testing::Bool(), testing::Values(1, 2, 3, 4, 7, 8),
                                          testing::ValuesIn(mailbox_laws())),
                         [](const auto& run) {
                           return std::string(std::get<0>(run.param) ? "shaped" : "threads") +
                                  std::to_string(std::get<1>(run.param)) + std::string(std::get<2>(run.param).name);
                         });

TEST(ThreadMailbox, AStalledPeerIsNamedAtTheDeadline) { run_threads(4, 300ms, check_stalled_peer); }

TEST(ThreadMailbox, ALostPeerIsNamed) {
  for (const int ranks : {2, 5}) {
    try {
      run_threads(ranks, 600s, [](Communicator& communicator) {
        check_lost_peer(communicator, [] { throw std::runtime_error("the disk is full"); });
      });
      ADD_FAILURE() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the disk is full");
    }
  }
}

// A thread that ends without closing its mailbox is lost, as one that fails.
TEST(ThreadMailbox, WhoEndsWithoutClosingItIsLost) {
  run_threads(3, 600s, [](Communicator& communicator) { check_lost_peer(communicator, [] {}); });
}

TEST(Inbox, KeepsTheOrderOfASenderAndOtherwiseThatOfArrival) {
  Inbox inbox(2);
  const auto now = Clock::now();
  const auto until = now + 60s;
  const auto byte = [](int value) { return std::vector{static_cast<std::byte>(value)}; };
  inbox.put({0, byte(1), now + 20ms}, until);
  inbox.put({0, byte(2), now + 10ms}, until);  // waits for the first one
  inbox.put({1, byte(3), now + 5ms}, until);
  std::pair<int, std::string> lost;
  for (const int wanted : {3, 1, 2}) {
    const auto mail = inbox.poll(until, lost);
    ASSERT_TRUE(mail);
    EXPECT_EQ(mail->data, byte(wanted));
    EXPECT_LE(mail->arrived, Clock::now());
  }
  EXPECT_FALSE(inbox.poll(Clock::now(), lost));
}

TEST(Inbox, HasRoomForSoManyOfEachSender) {
  Inbox inbox(2);
  for (std::size_t i = 0; i < Mailbox::depth; ++i) EXPECT_EQ(inbox.put({0, {}, {}}, Clock::now()), Inbox::Put::taken);
  EXPECT_EQ(inbox.put({0, {}, {}}, Clock::now() + 1ms), Inbox::Put::full);
  EXPECT_EQ(inbox.put({1, {}, {}}, Clock::now()), Inbox::Put::taken);
  std::pair<int, std::string> lost;
  EXPECT_TRUE(inbox.poll(Clock::now(), lost));
  EXPECT_EQ(inbox.put({0, {}, {}}, Clock::now()), Inbox::Put::taken);
  inbox.close();
  EXPECT_EQ(inbox.put({1, {}, {}}, Clock::now()), Inbox::Put::closed);
}

TEST(Inbox, GivesMemoryBack) {
  Inbox inbox(1);
  auto memory = inbox.buffer(1000);
  const auto* const address = memory.data();
  inbox.recycle(std::move(memory));
  EXPECT_EQ(inbox.buffer(500).data(), address);
}

// The frame that a mailbox reads before it makes room for a message.
std::array<std::byte, Frame::bytes> word(std::uint64_t value) {
  std::array<std::byte, Frame::bytes> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

TEST(Frame, ComesBackAsItWasWritten) {
  for (const Frame frame : {Frame{Frame::Kind::mail, 0}, Frame{Frame::Kind::mail, 1000}, Frame{Frame::Kind::goodbye, 0},
                            Frame{Frame::Kind::thanks, 0}}) {
    std::array<std::byte, Frame::bytes> bytes{};
    write_frame(frame, bytes);
    const Frame back = read_frame(bytes, 1000);
    EXPECT_EQ(back.kind, frame.kind);
    EXPECT_EQ(back.length, frame.length);
  }
  EXPECT_EQ(word(0x01'00'00'00'00'00'03'e8)[0], std::byte{0xe8});
  EXPECT_EQ(read_frame(word(0x01'00'00'00'00'00'03'e8), 1000).length, 1000U);
}

TEST(Frame, AnythingElseIsRefused) {
  for (const std::uint64_t hostile :
       {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{0x04'00'00'00'00'00'00'00}, ~std::uint64_t{0},
        std::uint64_t{0x02'00'00'00'00'00'00'01}, std::uint64_t{0x03'ff'ff'ff'ff'ff'ff'ff},
        std::uint64_t{0x01'00'00'00'00'00'03'e9}, std::uint64_t{0x01'ff'ff'ff'ff'ff'ff'ff}}) {
    EXPECT_THROW(read_frame(word(hostile), 1000), WireError) << std::hex << hostile;
  }
  const auto empty = word(0x01'00'00'00'00'00'00'00);
  EXPECT_THROW(read_frame(std::span(empty).first(7), 1000), WireError);
}

}  // namespace
}  // namespace sotto
