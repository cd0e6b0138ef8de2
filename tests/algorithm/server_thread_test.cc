// Which ranks a server takes for lost, with an inbox that the test fills.
#include "sotto/algorithm/server/server_thread.h"
#include "sotto/codec/stages.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/optim/sgd.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using test::message_of;

// Hands out the mail it was made with, one by one; the first only after the server's patience has run out.
class Slow final : public Mailbox {
 public:
  explicit Slow(std::deque<Mail> mail) : Mailbox(0, 2, 4096, 40ms), mail_(std::move(mail)) {}
  void cancel() override { cancelled_ = true; }
  void close() override {}
  bool has_left(int /*peer*/) const override { return false; }

 private:
  bool do_send(int /*to*/, std::span<const std::byte> /*data*/, Clock::time_point /*not_before*/) override {
    return true;
  }
  std::optional<Mail> do_poll(Clock::time_point until) override {
    if (mail_.empty()) {
      while (!cancelled_ && Clock::now() < until) std::this_thread::sleep_for(1ms);
      return {};
    }
    if (!std::exchange(begun_, true)) std::this_thread::sleep_for(2 * deadline());
    Mail next = std::move(mail_.front());
    mail_.pop_front();
    return next;
  }

  std::deque<Mail> mail_;
  bool begun_ = false;
  std::atomic<bool> cancelled_ = false;
};

// The error of a server of two ranks when these ranks tell it that they rest.
std::string end_of_server(std::initializer_list<int> ranks) {
  Layout layout;
  layout.append("only", {16});
  const auto buckets = plan_buckets(layout, 64);
  ServerPlan plan{.ranks = 2};
  plan.quorum = 2;
  const auto optimiser = make_sgd({0, false, 0}, layout);
  const std::vector<float> parameters(layout.size());
  Server server(plan, 0, share_out(buckets, 1).front(), make_codec(read_stages("f32")), Downlink({}, nullptr, buckets),
                1, 0, [](int, std::span<const std::byte>) {});
  std::deque<Mail> mail;
  for (const int rank : ranks) {
    mail.push_back({rank, std::vector<std::byte>(ServerNote::bytes), Clock::now()});
    write_note({.kind = ServerNote::Kind::rest}, mail.back().data);
  }
  Slow requests(std::move(mail));
  ServerThread thread(server, requests, [] {});
  thread.work(std::vector<std::uint64_t>(2), parameters, *optimiser);
  return message_of([&] { thread.wait_for_rest(); });
}

TEST(ServerThread, DoesNotTakeItsOwnSilenceForThatOfARank) { EXPECT_EQ(end_of_server({0, 1}), ""); }

TEST(ServerThread, NamesWhoIsSilent) {
  const std::string why = end_of_server({0});
  EXPECT_NE(why.find("the server waits for rank 1 at step 0"), std::string::npos) << why;
}

}  // namespace
}  // namespace sotto
