// Communicators over, and beside, process groups that other code made.
#include <gtest/gtest.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <thread>

#include "adapters/c10d/process_group.h"
#include "adapters/c10d/store.h"
#include "gloo_group.h"
#include "laws.h"
#include "polled_work.h"
#include "processes.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

// Ends the process when it is destroyed before it is complete, as a work of MPI does.
class StrictWork final : public PolledWork {
 public:
  using PolledWork::PolledWork;
  ~StrictWork() override {
    if (!isCompleted()) std::terminate();
  }
};

class PolledBackend final : public c10d::Backend {
 public:
  explicit PolledBackend(c10::intrusive_ptr<c10d::Backend> inner)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}
  const std::string getBackendName() const override { return "polled"; }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer, int tag) override {
    return polled(inner_->send(tensors, peer, tag));
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int peer, int tag) override {
    return polled(inner_->recv(tensors, peer, tag));
  }

 private:
  static c10::intrusive_ptr<c10d::Work> polled(c10::intrusive_ptr<c10d::Work> work) {
    return c10::make_intrusive<StrictWork>(std::vector{std::move(work)});
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
};

class ProcessGroups : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }

  // Runs `body` on every rank, with groups as torch.distributed makes them.
  void run(int ranks, bool polled, const std::function<void(c10d::ProcessGroup&)>& body) const {
    std::filesystem::remove(file_);  // from an earlier run
    const auto all = run_processes(ranks, limit, [&](int rank) {
      const auto store = c10::make_intrusive<c10d::FileStore>(file_, ranks);
      auto options = c10d::ProcessGroupGloo::Options::create(30s);
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
      const auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, ranks, options);
      const auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, ranks);
      if (polled) {
        group->setBackend(c10::kCPU, c10d::ProcessGroup::CUSTOM, c10::make_intrusive<PolledBackend>(gloo));
      } else {
        group->setBackend(c10::kCPU, c10d::ProcessGroup::GLOO, gloo);
      }
      body(*group);
    });
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      EXPECT_EQ(all[rank].status, 0) << "rank " << rank << ": " << all[rank].error;
  }

 private:
  std::string file_ = std::filesystem::temp_directory_path() / ("sotto-groups-" + std::to_string(::getpid()));
};

// body() must throw a CommError whose text contains `said` but not `unsaid`.
void expect_failure(const std::function<void()>& body, const std::string& said, const std::string& unsaid) {
  try {
    body();
  } catch (const CommError& error) {
    const std::string text = error.what();
    if (text.find(said) == text.npos || text.find(unsaid) != text.npos) throw;
    return;
  }
  throw std::runtime_error("no error that says " + said);
}

TEST_F(ProcessGroups, LawsHoldBesideAGlooGroup) {
  run(3, false, [](c10d::ProcessGroup& group) {
    const auto first = beside_process_group(group, meet(group), 30s);
    const auto second = beside_process_group(group, meet(group), 30s);
    check_laws(*first);
    check_laws(*second);
  });
}

TEST_F(ProcessGroups, MessagesGoOverAGroupThatIsWaitedFor) {
  run(3, false, [](c10d::ProcessGroup& group) {
    const auto communicator = over_process_group(group, 30s);
    std::vector<float> data(100000, static_cast<float>(communicator->rank()));
    communicator->all_reduce(data);
    if (data.back() != 3.0F || communicator->name() != "gloo") throw std::runtime_error("not the sum");
    EXPECT_THROW(communicator->clone(), std::logic_error);
    check_laws(*beside_process_group(group, meet(group), 30s));
  });
}

TEST_F(ProcessGroups, MessagesGoOverAGroupThatIsPolled) {
  run(3, true, [](c10d::ProcessGroup& group) {
    const auto communicator = over_process_group(group, 30s);
    for (const std::size_t size : {1, 100, 100000}) {
      std::vector<float> data(size, static_cast<float>(communicator->rank()));
      communicator->all_reduce(data);
      if (data.back() != 3.0F || communicator->name() != "polled") throw std::runtime_error("not the sum");
    }
    communicator->barrier();
  });
}

TEST_F(ProcessGroups, AGroupThatCannotGiveAMessageUpSurvivesATimeOut) {
  const SharedCounter failed;
  run(2, true, [&](c10d::ProcessGroup& group) {
    if (group.getRank() == 0) {
      std::vector<float> data(1000, 7);
      const auto communicator = over_process_group(group, 300ms);
      expect_failure([&] { communicator->all_reduce(data); }, "rank 0: all_reduce with rank 1", "gave up");
      std::ranges::fill(data, 7.0F);
      failed.add();
      failed.wait_for(2);
      if (std::ranges::count(data, 7.0F) != 1000) throw std::runtime_error("filled later");
    } else {
      failed.wait_for(1);
      std::vector<float> data(1000, 5);
      over_process_group(group, 30s)->all_reduce(data);  // what rank 0 sent has arrived
      failed.add();
    }
  });
}

// Counts requests. Each request of a meeting must name one key only, however many ranks there are.
class CountedStore final : public c10d::Store {
 public:
  c10::intrusive_ptr<Store> clone() override { return inner_; }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override { inner_->set(key, value); }
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override {
    return inner_->compareSet(key, expected, desired);
  }
  std::vector<std::uint8_t> get(const std::string& key) override { return inner_->get(key); }
  std::int64_t add(const std::string& key, std::int64_t value) override { return inner_->add(key, value); }
  bool deleteKey(const std::string& key) override { return inner_->deleteKey(key); }
  bool check(const std::vector<std::string>& keys) override {
    if (keys.size() > most) most = keys.size();
    ++checks;
    return inner_->check(keys);
  }
  std::int64_t getNumKeys() override { return inner_->getNumKeys(); }
  void wait(const std::vector<std::string>& keys) override { inner_->wait(keys); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& time) override {
    inner_->wait(keys, time);
  }
  std::atomic<std::size_t> most = 0, checks = 0;

 private:
  c10::intrusive_ptr<c10d::HashStore> inner_ = c10::make_intrusive<c10d::HashStore>();
};

TEST(Meetings, AskForOneKeyAtATime) {
  constexpr int ranks = 32;
  const auto all = run_processes(1, limit, [](int) {
    const auto store = c10::make_intrusive<CountedStore>();
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&store, rank] { Meeting(from_c10d(store), 600s, rank, ranks).wait_for_all(600s); });
    }
    threads.clear();
    if (store->most != 1 || store->checks == 0) throw std::runtime_error("several keys");
  });
  EXPECT_EQ(all[0].error, "");
  EXPECT_EQ(all[0].status, 0);
}

TEST_F(ProcessGroups, WhoGivesUpEndsTheOthersWithItsReason) {
  run(3, false, [](c10d::ProcessGroup& group) {
    const auto communicator = beside_process_group(group, meet(group), 600s);
    communicator->at_step(17);
    communicator->barrier();
    if (communicator->rank() == 1) communicator->give_up("the dog ate the gradient");
    try {
      std::vector<float> data(100000);
      communicator->all_reduce(data);
    } catch (const CommError& error) {
      const std::string text = error.what();
      const bool own = communicator->rank() == 1;
      if (text.find(own ? "failed before: the dog" : " at step 17: it gave up (because of the dog ate the gradient)") !=
          text.npos) {
        return;
      }
      throw;
    }
    throw std::runtime_error("no error");
  });
}

TEST_F(ProcessGroups, AMeetingKnowsNothingOfAnEarlierOne) {
  run(2, false, [](c10d::ProcessGroup& group) {
    auto first = beside_process_group(group, meet(group), 600s);
    first->barrier();
    if (group.getRank() == 1) first->give_up("the dog ate the gradient");
    auto second = beside_process_group(group, meet(group), 600s);
    second->barrier();
    if (group.getRank() == 1) return second.reset();
    expect_failure([&] { second->barrier(); }, "closed", "the dog");
  });
}

TEST_F(ProcessGroups, WhoMissedAMeetingComesToTheNext) {
  run(3, false, [](c10d::ProcessGroup& group) {
    const auto beside = [&](std::chrono::milliseconds deadline) {
      return beside_process_group(group, meet(group), deadline);
    };
    const auto all = beside(600s);
    for (int missed = 0; missed < 2; ++missed) {
      // Rank 0 or rank 2 waits in vain first; the other one is told.
      if (group.getRank() != 1) expect_failure([&] { beside(200ms); }, "rank 1 did not come within 0.2 s", "closed");
      all->barrier();
    }
    check_laws(*beside(600s));
    check_laws(*beside(600s));
    if (group.getRank() == 2) expect_failure([&] { beside(200ms); }, "ranks 0, 1 did not come within 0.2 s", "closed");
    all->barrier();
    if (group.getRank() == 0) {
      expect_failure([&] { beside(200ms); },
                     "did not come within 0.2 s at the process group's store (this rank missed an "
                     "earlier meeting: rank 2: ranks 0, 1 did not come",
                     "closed");
    }
    all->barrier();
  });
}

TEST_F(ProcessGroups, WhoGivesUpBeforeTheyMeetEndsTheWaitOfAll) {
  run(3, false, [](c10d::ProcessGroup& group) {
    const auto meeting = meet(group);
    if (group.getRank() == 1) {
      meeting->give_up("no \x1b[31mcable\n");
    } else {
      expect_failure([&] { beside_process_group(group, meeting, 600s); }, "rank 1 gave up: no \\x1b[31mcable\\n",
                     "time");
    }
    check_laws(*beside_process_group(group, meet(group), 600s));
  });
}

TEST_F(ProcessGroups, WhoGivesUpWhileOthersConnectIsNamed) {
  run(3, false, [](c10d::ProcessGroup& group) {
    expect_failure(
        [&] {
          const auto communicator = beside_process_group(group, meet(group), 600s);
          if (group.getRank() == 1) communicator->give_up("no cable");
          communicator->barrier();
        },
        "no cable", "timed out");
  });
}

TEST_F(ProcessGroups, WhoNeverComesIsNamed) {
  run(2, false, [](c10d::ProcessGroup& group) {
    const auto meeting = meet(group);
    const auto after = meet(group);
    if (group.getRank() == 0) {
      expect_failure([&] { meeting->wait_for_all(200ms); }, "rank 0: rank 1 did not come within 0.2 s", "gave up");
    } else {
      after->wait_for_all(600s);
      expect_failure([&] { meeting->wait_for_all(600s); }, "rank 0 gave up: rank 0: rank 1 did not come", "600");
    }
    if (group.getRank() == 0) after->wait_for_all(600s);
  });
}

// Messages have several sizes, so that a message that met the wrong receive would not fit.
TEST_F(ProcessGroups, RanksThatDoNotAgreeEndEachOther) {
  for (const int ranks : {2, 3}) {
    run(ranks, false, [](c10d::ProcessGroup& group) {
      const auto communicator = beside_process_group(group, meet(group), 600s);
      std::vector<float> data(100000, 1.0F);
      for (const std::uint64_t step : {7U, 8U}) {
        communicator->require_same(step, "it slept");
        communicator->barrier();
        communicator->all_reduce(data);
      }
      if (data.back() != static_cast<float>(group.getSize() * group.getSize())) throw std::runtime_error("not the sum");
      const std::size_t size = group.getRank() == 0 ? 100000 : 100;
      communicator->require_same(group.getRank() == 0 ? 9 : 8, "it slept");
      expect_failure([&] { communicator->all_reduce(std::span(data).first(size)); }, "it slept", "timed out");
    });
  }
}

TEST_F(ProcessGroups, WhatAGroupLacksIsSaid) {
  const auto bare = c10::make_intrusive<c10d::ProcessGroup>(0, 1);
  EXPECT_THROW(over_process_group(*bare, 1s), ConfigError);
  EXPECT_THROW(meet(*bare), ConfigError);
}

}  // namespace
}  // namespace sotto
