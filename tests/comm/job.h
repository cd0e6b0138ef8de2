#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "processes.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/transport.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"

namespace sotto {

inline constexpr double limit = 60;  // seconds for the processes of a test

inline void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "`" << part << "` is not in: " << text;
}

// Serves a store for the ranks of a test, as the launcher does for a job.
class Job : public testing::Test {
 protected:
  using Connect = std::unique_ptr<Communicator> (*)(const World& world, const TransportOptions& options);

  void SetUp() override {
    const auto threads = std::filesystem::directory_iterator("/proc/self/task");
    ASSERT_EQ(std::distance(begin(threads), end(threads)), 1) << "forking needs a process without threads";
    ASSERT_NE(server_.port(), 0);
  }

  World world(int rank, int size) const {
    World world;
    world.starter = "sotto";
    world.rank = world.local_rank = rank;
    world.size = world.local_size = size;
    world.port = static_cast<std::uint16_t>(server_.port());
    world.prefix = "test";
    world.stores = &plain_stores();
    return world;
  }

  // Runs `body` on every rank of a group at step 17; each rank is a process. Returns how each ended.
  std::vector<Ended> run_over(Connect connect, int ranks, std::chrono::milliseconds deadline,
                              const std::function<void(Communicator&)>& body) const {
    return run_processes(ranks, limit, [&](int rank) {
      TransportOptions options;
      options.deadline = deadline;
      const auto communicator = connect(world(rank, ranks), options);
      communicator->at_step(17);
      body(*communicator);
    });
  }

  ServerProcess server_{[](const auto& ready) {
    const StoreServer server(plain_stores(), "127.0.0.1");
    ready(server.port());
  }};
};

// A number that all processes of a test share.
class SharedCounter {
 public:
  SharedCounter()
      : value_(new (::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                           0)) std::atomic<int>(0)) {}
  ~SharedCounter() { ::munmap(value_, sizeof(*value_)); }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  void add() const { ++*value_; }
  void wait_for(int value) const {
    while (*value_ < value) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

 private:
  std::atomic<int>* value_;
};

// REQUIRES rank 0 at step 17, with a deadline of a second and a silent rank 1. Every operation must fail from now on.
inline void require_failed_for_good(Communicator& communicator) {
  for (const char* wanted :
       {"rank 0: barrier with rank 1 at step 17: timed out after 1 s",
        "rank 0: barrier with rank 1 at step 17: an operation failed before: timed out after 1 s"}) {
    try {
      communicator.barrier();
      throw std::runtime_error("no error");
    } catch (const CommError& error) {
      if (std::string(error.what()) != wanted) throw;
    }
  }
}

inline void expect_success(const std::vector<Ended>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    EXPECT_EQ(all[rank].status, 0) << "rank " << rank << ": " << all[rank].error;
}

}  // namespace sotto
