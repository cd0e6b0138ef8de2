// What is special about mailboxes over Gloo: their threads, and a peer that sends nonsense.
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "../support/thread_limit.h"
#include "adapters/c10d/c10d.h"
#include "adapters/c10d/store.h"
#include "gloo_group.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/queued_mailbox.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

TEST_F(Gloo, AMailboxThatGetsTooFewThreadsIsAnError) {
  if (!test::ThreadLimit::works()) GTEST_SKIP() << "threads cannot be limited here";
  const SharedCounter connected, done;
  const auto all = run_processes(2, limit, [&](int rank) {
    const auto meeting = std::make_shared<Meeting>(world(rank, 2), "gloo", 30s);
    auto settings = c10d::ProcessGroupGloo::Options::create(30s);
    settings->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(as_c10d(meeting->section("mail"), 30s), rank, 2, settings);
    connected.add();
    connected.wait_for(2);  // the group of rank 0 is gone once there is no mailbox
    if (rank == 0) {
      const test::ThreadLimit one(1);  // it needs two
      EXPECT_THROW(make_gloo_mailbox(std::move(group), meeting, 100, 30s), Error);
      done.add();
    }
    done.wait_for(1);
  });
  expect_success(all);
}

TEST_F(Gloo, AMailboxEndsThoughItsPeersAreDeadOrStopped) {
  const SharedCounter ended;
  const auto all = run(3, 600s, [&](Communicator& communicator) {
    auto mailbox = communicator.open_mailbox(1 << 24);
    communicator.barrier();
    if (communicator.rank() == 1) ::raise(SIGKILL);
    if (communicator.rank() == 2) return ended.wait_for(1);  // never polls; ends while messages to it are on their way
    const std::vector<std::byte> data(1 << 24);
    for (std::size_t i = 0; i < Mailbox::depth; ++i) mailbox->send(2, data);
    mailbox.reset();
    ended.add();
  });
  EXPECT_EQ(all[0].status, 0) << all[0].error;
}

// A rank sends bytes that are no message, as an old or damaged program would.
TEST_F(Gloo, ARankThatAnnouncesTooMuchIsNamed) {
  const auto all = run_processes(2, limit, [&](int rank) {
    TransportOptions options;
    options.deadline = 30s;
    const auto communicator = connect_gloo(world(rank, 2), options);
    if (rank == 0) {
      const auto mailbox = communicator->open_mailbox(1000);
      mailbox->poll(600s);
      return;
    }
    std::array<std::uint64_t, 1> most{1000};
    std::array<std::uint64_t, 2> both{};
    communicator->all_gather(std::as_bytes(std::span(most)), std::as_writable_bytes(std::span(both)));
    const StorePtr whole = plain_stores().join("127.0.0.1", world(1, 2).port, 60s, {});
    const auto store = as_c10d(part_of(whole, "test/mail.0"), 60s);
    auto settings = c10d::ProcessGroupGloo::Options::create(30s);
    settings->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    const auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, 1, 2, settings);
    std::array<std::byte, Frame::bytes> frame{};
    write_frame({Frame::Kind::mail, 1001}, frame);
    std::vector<at::Tensor> tensor{at::from_blob(frame.data(), {Frame::bytes}, at::kByte)};
    group->send(tensor, 0, 0)->wait();
    communicator->barrier();
  });
  EXPECT_EQ(all[0].status, 1);
  expect_contains(all[0].error,
                  "rank 0: mailbox with rank 1: a message of 1001 bytes is announced, and 1000 may come at most");
}

}  // namespace
}  // namespace sotto
