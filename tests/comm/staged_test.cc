// Communicators whose messages go through tensors of a device, with Gloo in place of NCCL. The stand-in throws when a
// call breaks a rule of NCCL.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "adapters/c10d/staged.h"
#include "adapters/c10d/transports.h"
#include "gloo_group.h"
#include "laws.h"
#include "polled_work.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

// Like NCCL's, its wait() does not throw what went wrong: only the device's queue waits.
class QueuedWork final : public PolledWork {
 public:
  using PolledWork::PolledWork;
  bool wait(std::chrono::milliseconds) override {
    if (!isCompleted()) throw std::logic_error("waited for before it was complete");
    return true;
  }
};

// Has the rules of NCCL: messages are sent in batches only, none is empty, and each is exactly as long as the room of
// its receiver.
class Batches final : public c10d::Backend {
 public:
  explicit Batches(const c10::intrusive_ptr<c10d::Backend>& inner)
      : Backend(inner->getRank(), inner->getSize()), inner_(inner) {}
  const std::string getBackendName() const override { return "batches"; }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override {
    if (std::exchange(open_, true)) throw std::logic_error("a batch in a batch");
    batch_.clear();
  }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override {
    if (!std::exchange(open_, false)) throw std::logic_error("no batch was begun");
    if (batch_.empty()) return {};
    for (const auto& work : batch_) started_.push_back(work);
    return c10::make_intrusive<QueuedWork>(batch_);
  }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer, int tag) override {
    check(tensors);
    sizes_.push_back(at::full({1}, tensors[0].numel(), at::kLong));
    std::vector<at::Tensor> size{sizes_.back()};
    batch_.push_back(inner_->send(size, peer, tag + 1));
    return batch_.emplace_back(inner_->send(tensors, peer, tag));
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int peer, int tag) override {
    check(tensors);
    std::vector<at::Tensor> size{at::zeros({1}, at::kLong)};
    const auto said = inner_->recv(size, peer, tag + 1);
    batch_.push_back(c10::make_intrusive<Length>(said, size[0], tensors[0].numel()));
    started_.push_back(said);
    return batch_.emplace_back(inner_->recv(tensors, peer, tag));
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return c10::make_intrusive<QueuedWork>(Works{inner_->allreduce(tensors, options)});
  }
  void abort() override {
    for (const auto& work : started_) work->abort();
  }

 private:
  // Throws when the sender's message is not as long as the room.
  class Length final : public c10d::Work {
   public:
    Length(c10::intrusive_ptr<c10d::Work> said, at::Tensor size, std::int64_t room)
        : said_(std::move(said)), size_(std::move(size)), room_(room) {}
    bool wait(std::chrono::milliseconds timeout) override {
      said_->wait(timeout);
      if (size_.item<std::int64_t>() != room_) throw std::logic_error("a message is not as long as its room");
      return true;
    }
    void abort() override {}

   private:
    c10::intrusive_ptr<c10d::Work> said_;
    at::Tensor size_;
    std::int64_t room_;
  };

  void check(const std::vector<at::Tensor>& tensors) const {
    if (!open_) throw std::logic_error("a message outside of a batch");
    if (tensors.size() != 1 || tensors[0].numel() == 0 || !tensors[0].is_contiguous()) {
      throw std::logic_error("not one tensor that is there");
    }
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  bool open_ = false;
  Works batch_, started_;
  std::vector<at::Tensor> sizes_;  // on their way
};

class Staged : public Gloo {
 protected:
  std::vector<Ended> run_staged(int ranks, std::chrono::milliseconds deadline,
                                const std::function<void(Communicator&)>& body) const {
    return run_processes(ranks, limit, [&](int rank) {
      ::signal(SIGPIPE, SIG_IGN);  // as in Python: Gloo writes to the sockets of peers that are gone
      const auto connect = [&](const c10::intrusive_ptr<c10d::Store>& store) -> c10::intrusive_ptr<c10d::Backend> {
        auto settings = c10d::ProcessGroupGloo::Options::create(600s);
        settings->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
        return c10::make_intrusive<Batches>(
            c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, ranks, std::move(settings)));
      };
      const auto communicator = make_staged(std::make_shared<Meeting>(world(rank, ranks), "nccl", 30s),
                                            {"batches", c10::kCPU, connect}, rank, ranks, deadline);
      communicator->at_step(17);
      body(*communicator);
    });
  }
};

class StagedLaws : public Staged, public testing::WithParamInterface<int> {};

TEST_P(StagedLaws, Hold) { expect_success(run_staged(GetParam(), 30s, check_laws)); }
INSTANTIATE_TEST_SUITE_P(Ranks, StagedLaws, testing::Values(1, 2, 3, 4, 7), testing::PrintToStringParamName());

TEST_F(Staged, AMessageThatIsTooLongIsAnErrorOfItsReceiver) {
  const auto all = run_staged(2, 5s, [](Communicator& communicator) {
    const std::vector<std::byte> data(11);
    std::vector<std::byte> room(10);
    if (communicator.rank() == 0) {
      const Send send{1, data};
      communicator.exchange({&send, 1}, {});
    } else {
      Recv recv{0, room};
      communicator.exchange({}, {&recv, 1});
    }
  });
  expect_contains(all[1].error,
                  "rank 1: exchange with rank 0 at step 17: a message of 11 bytes came where there is room for 10");
  EXPECT_EQ(all[0].status, 1);
}

TEST_F(Staged, AKilledRankEndsTheOthers) {
  const auto all = run_staged(3, 3s, [](Communicator& communicator) {
    std::vector<float> data(100000);
    communicator.all_reduce(data);
    if (communicator.rank() == 2) ::raise(SIGKILL);
    communicator.all_reduce(data);
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(all[static_cast<std::size_t>(rank)].status, 1);
    EXPECT_LT(all[static_cast<std::size_t>(rank)].seconds, 40);
    expect_contains(all[static_cast<std::size_t>(rank)].error, "at step 17: ");
  }
}

TEST_F(Staged, AStalledRankEndsTheOthersAtTheDeadlineAndTheyStayFailed) {
  const SharedCounter failed;
  expect_success(run_staged(2, 1s, [&](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) return failed.wait_for(1);
    require_failed_for_good(communicator);
    failed.add();
  }));
}

TEST_F(Staged, WhoGivesUpTellsWhy) {
  const auto all = run_staged(2, 2s, [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) return communicator.give_up("the disk is full");
    communicator.barrier();
  });
  EXPECT_EQ(all[1].status, 0);
  expect_contains(all[0].error, "the disk is full");
}

TEST_F(Staged, ThereIsNoMailbox) {
  expect_success(run_staged(2, 5s, [](Communicator& communicator) {
    EXPECT_THROW(communicator.open_mailbox(10), ConfigError);
    if (communicator.name() != "batches") throw std::runtime_error("another name");
  }));
}

TEST(Nccl, SaysWhatIsMissing) {
  try {
    World world;
    world.local_size = 1000;
    require_nccl(world);
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    expect_contains(error.what(),
                    nccl_library().empty() ? "this program was built without NCCL" : "each rank needs its own GPU");
  }
}

}  // namespace
}  // namespace sotto
