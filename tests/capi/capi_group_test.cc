#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "sotto/capi/sotto.h"
#include "sotto/comm/secret.h"
#include "sotto/core/open_file.h"
#include "tests/capi/ranks.h"
#include "tests/core/helpers.h"

namespace sotto {
namespace {

template <class Number>
constexpr sotto_type type_of = std::is_same_v<Number, float>          ? SOTTO_F32
                               : std::is_same_v<Number, double>       ? SOTTO_F64
                               : std::is_same_v<Number, std::int32_t> ? SOTTO_I32
                               : std::is_same_v<Number, std::int64_t> ? SOTTO_I64
                                                                      : SOTTO_U8;

// Aggregates a vector in place.
template <class Number>
sotto_status aggregate(sotto_group* group, std::vector<Number>& values, sotto_aggregate_options options = {}) {
  const auto size = static_cast<std::int64_t>(values.size());
  const sotto_tensor tensor{values.data(), type_of<Number>, 1, &size, nullptr};
  options.bytes = sizeof(options);
  return sotto_aggregate(group, &tensor, &options);
}

TEST(CapiGroup, AggregatesOverAllRanks) {
  for (const int ranks : {1, 2, 3, 5}) {
    test::run_groups(ranks, [&](sotto_group* group, int rank) {
      EXPECT_TRUE(sotto_group_rank(group) == rank && sotto_group_ranks(group) == ranks);
      EXPECT_EQ(sotto_group_encrypts(group), 0) << "all run on one host";
      const auto result = [&](sotto_op op, double denominator = 0) {
        std::vector<float> values{static_cast<float>(rank), 1};
        EXPECT_EQ(aggregate(group, values, {.op = op, .denominator = denominator}), SOTTO_OK) << sotto_last_error(0);
        return values;
      };
      const auto n = static_cast<float>(ranks), sum = n * (n - 1) / 2;
      EXPECT_EQ(result(SOTTO_SUM), (std::vector<float>{sum, n}));
      EXPECT_EQ(result(SOTTO_AVG), (std::vector<float>{sum / n, 1}));
      EXPECT_EQ(result(SOTTO_AVG, 4), (std::vector<float>{sum / 4, n / 4}));
      EXPECT_EQ(result(SOTTO_MIN), (std::vector<float>{0, 1}));
      EXPECT_EQ(result(SOTTO_MAX), (std::vector<float>{n - 1, 1}));
      std::vector<float> values(2);
      EXPECT_EQ(sotto_aggregate(group, nullptr, nullptr), SOTTO_CONFIG_ERROR);
      EXPECT_EQ(sotto_aggregate(nullptr, nullptr, nullptr), SOTTO_CONFIG_ERROR);
      EXPECT_EQ(aggregate(group, values, {.op = 4}), SOTTO_CONFIG_ERROR);
      EXPECT_EQ(aggregate(group, values, {.op = SOTTO_MIN, .codec = "int8"}), SOTTO_CONFIG_ERROR);
      EXPECT_EQ(aggregate(group, values, {.codec = "ef | int8"}), SOTTO_CONFIG_ERROR);
    });
  }
}

TEST(CapiGroup, AggregatesEveryType) {
  test::run_groups(3, [](sotto_group* group, int rank) {
    std::vector<double> doubles{1e300, rank + 0.5};
    EXPECT_EQ(aggregate(group, doubles), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(doubles, (std::vector<double>{1e300, 1.5}));
    std::vector<std::int64_t> numbers{std::int64_t{1} << 60, -rank};
    EXPECT_EQ(aggregate(group, numbers, {.op = SOTTO_SUM}), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(numbers, (std::vector<std::int64_t>{3 * (std::int64_t{1} << 60), -3}));
    EXPECT_EQ(aggregate(group, numbers, {.op = SOTTO_SUM}), SOTTO_NUMERIC_ERROR) << "the type does not hold the sum";
    std::vector<std::uint8_t> bytes{static_cast<std::uint8_t>(rank), 85};
    EXPECT_EQ(aggregate(group, bytes, {.op = SOTTO_SUM}), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(bytes, (std::vector<std::uint8_t>{3, 255}));
    std::vector<std::int32_t> whole{1};
    EXPECT_EQ(aggregate(group, whole), SOTTO_CONFIG_ERROR) << "means have fractions";
  });
}

TEST(CapiGroup, AggregatesMessagesOfACodec) {
  test::run_groups(3, [](sotto_group* group, int rank) {
    std::vector<float> values(350);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + static_cast<std::size_t>(rank));
    auto coded = values;
    EXPECT_EQ(aggregate(group, values), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(aggregate(group, coded, {.codec = "int8", .seed = 1, .most = 100}), SOTTO_OK) << sotto_last_error(0);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], coded[i], 2);
    std::vector<float> bad{std::numeric_limits<float>::quiet_NaN()}, good{1};
    EXPECT_NE(aggregate(group, rank == 1 ? bad : good), SOTTO_OK) << "one rank refuses, and so do all";
  });
}

TEST(CapiGroup, GathersBytesOfAllRanks) {
  test::run_groups(3, [](sotto_group* group, int rank) {
    const std::string own(static_cast<std::size_t>(rank), static_cast<char>('0' + rank));
    std::vector<std::string> all;
    const sotto_sink sink{[](void* to, const void* data, std::size_t size) {
                            static_cast<std::vector<std::string>*>(to)->emplace_back(static_cast<const char*>(data),
                                                                                     size);
                          },
                          &all};
    ASSERT_EQ(sotto_group_gather(group, own.data(), own.size(), sink), SOTTO_OK) << sotto_last_error(0);
    EXPECT_EQ(all, rank == 0 ? (std::vector<std::string>{"", "1", "22"}) : std::vector<std::string>{});
  });
}

TEST(CapiGroup, SeveralMeetInOneStore) {
  test::SharedStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      std::array<sotto_group*, 3> groups{};
      for (sotto_group*& group : groups) {
        const sotto_store calls = store.calls();
        ASSERT_EQ(sotto_group_create(&calls, rank, 3, nullptr, &group), SOTTO_OK) << sotto_last_error(0);
      }
      for (sotto_group* group : groups) {
        std::vector<float> one{1};
        EXPECT_EQ(aggregate(group, one, {.op = SOTTO_SUM}), SOTTO_OK) << sotto_last_error(0);
        EXPECT_EQ(one[0], 3);
        sotto_group_free(group);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (store.released() < 9) std::this_thread::yield();
}

TEST(CapiGroup, ARankThatWillNotComeSaysWhy) {
  test::SharedStore store;
  const sotto_store calls = store.calls(), others = store.calls();
  sotto_meeting *meeting = nullptr, *other = nullptr;
  ASSERT_EQ(sotto_meeting_create(&calls, 0, 2, 0, &meeting), SOTTO_OK) << sotto_last_error(0);
  ASSERT_EQ(sotto_meeting_create(&others, 1, 2, 0, &other), SOTTO_OK) << sotto_last_error(0);
  sotto_meeting_give_up(other, "it has no data");
  sotto_group* group = nullptr;
  EXPECT_EQ(sotto_meeting_connect(meeting, nullptr, &group), SOTTO_COMM_ERROR);
  EXPECT_NE(std::string(sotto_last_error(0)).find("it has no data"), std::string::npos) << sotto_last_error(0);
  sotto_meeting_free(meeting);
  sotto_meeting_free(other);
  while (store.released() < 2) std::this_thread::yield();
}

TEST(CapiGroup, NamesRanksThatDoNotCome) {
  test::SharedStore store;
  const sotto_store calls = store.calls();
  const sotto_group_options options{.bytes = sizeof(options), .timeout = 0.3};
  sotto_group* group = nullptr;
  EXPECT_EQ(sotto_group_create(&calls, 0, 2, &options, &group), SOTTO_COMM_ERROR);
  EXPECT_NE(std::string(sotto_last_error(0)).find("rank 1 did not come within 0.3 s"), std::string::npos)
      << sotto_last_error(0);
  EXPECT_EQ(group, nullptr);
  while (store.released() == 0) std::this_thread::yield();
}

TEST(CapiGroup, AStoreThatIsGoneIsAnError) {
  test::SharedStore store;
  store.close();
  const sotto_store calls = store.calls();
  sotto_group* group = nullptr;
  EXPECT_EQ(sotto_group_create(&calls, 0, 2, nullptr, &group), SOTTO_COMM_ERROR) << sotto_last_error(0);
  while (store.released() == 0) std::this_thread::yield();  // a request may still run on its own thread
}

TEST(CapiGroup, ReasonsReachTheOthers) {
  test::run_groups(3, [](sotto_group* group, int rank) {
    if (rank == 1) return sotto_group_give_up(group, "the data are bad");
    std::vector<float> one{1};
    ASSERT_EQ(aggregate(group, one), SOTTO_COMM_ERROR);
    EXPECT_NE(std::string(sotto_last_error(0)).find("the data are bad"), std::string::npos) << sotto_last_error(0);
  });
}

TEST(CapiGroup, RefusesWhatItCannotUse) {
  test::SharedStore store;
  sotto_group* group = nullptr;
  const auto create = [&](int rank, int ranks, const sotto_group_options& options) {
    const sotto_store calls = store.calls();
    return sotto_group_create(&calls, rank, ranks, &options, &group);
  };
  const sotto_group_options good{.bytes = sizeof(good)};
  EXPECT_EQ(create(2, 2, good), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(-1, 2, good), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 0, good), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = 1000}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = 0}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = sizeof(good), .timeout = -1}), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = sizeof(good), .streams = 65}), SOTTO_CONFIG_ERROR);
  sotto_store calls = store.calls();
  calls.find = nullptr;
  EXPECT_EQ(sotto_group_create(&calls, 0, 1, nullptr, &group), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(sotto_group_create(nullptr, 0, 1, nullptr, &group), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(create(0, 1, {.bytes = sizeof(std::size_t)}), SOTTO_OK) << "a caller who knows no option";
  sotto_group_free(group);
  sotto_group_free(nullptr);
}

// A port that no other program takes while this object lives; a server that allows sharing can still listen on it.
class ReservedPort {
 public:
  ReservedPort() {
    const int on = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    socklen_t length = sizeof(address_);
    address_.sin_family = AF_INET;
    ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address_), length);
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address_), &length);
  }
  std::uint16_t number() const { return ntohs(address_.sin_port); }

 private:
  Descriptor socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address_{};
};

TEST(CapiMeeting, NeedsNoStoreOfTheCallers) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "secret";
  write_secret(new_secret(), file);
  for (const char* const secret : {static_cast<const char*>(nullptr), file.c_str()}) {
    const ReservedPort port;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        sotto_group* group = nullptr;
        sotto_store store;
        ASSERT_EQ(sotto_store_open("127.0.0.1", port.number(), rank, 3, secret, 0, &store), SOTTO_OK)
            << sotto_last_error(0);
        ASSERT_EQ(sotto_group_create(&store, rank, 3, nullptr, &group), SOTTO_OK) << sotto_last_error(0);
        std::vector<float> value{static_cast<float>(rank)};
        EXPECT_EQ(aggregate(group, value), SOTTO_OK) << sotto_last_error(0);
        EXPECT_EQ(value[0], 1);
        EXPECT_EQ(sotto_group_encrypts(group), 0) << "all run on one host";
        sotto_group_free(group);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(CapiMeeting, SaysWhatIsWrong) {
  const ReservedPort port;
  const sotto_group_options options{.bytes = sizeof(options), .timeout = 0.3};
  sotto_group* group = nullptr;
  const auto meet = [&](const char* host, std::uint16_t at, int rank, int ranks) {
    sotto_store store;
    const sotto_status opened = sotto_store_open(host, at, rank, ranks, nullptr, options.timeout, &store);
    return opened == SOTTO_OK ? sotto_group_create(&store, rank, ranks, &options, &group) : opened;
  };
  const auto says = [](const char* text) { return std::string(sotto_last_error(0)).find(text) != std::string::npos; };
  EXPECT_TRUE(meet("127.0.0.1", port.number(), 1, 2) == SOTTO_COMM_ERROR && says("is rank 0 running there?"))
      << sotto_last_error(0);
  EXPECT_TRUE(meet("127.0.0.1", port.number(), 0, 2) == SOTTO_COMM_ERROR && says("rank 1 did not come within 0.3 s"))
      << sotto_last_error(0);
  EXPECT_TRUE(meet("127.0.0.1", 0, 0, 2) == SOTTO_CONFIG_ERROR && says("port 0")) << sotto_last_error(0);
  EXPECT_EQ(meet("127.0.0.1", port.number(), 2, 2), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(meet(nullptr, port.number(), 0, 2), SOTTO_CONFIG_ERROR);
  EXPECT_EQ(meet("127.0.0.1", port.number(), 0, 1), SOTTO_OK) << sotto_last_error(0);
  sotto_group_free(group);
}

TEST(CapiGossip, ComesToTheMean) {
  test::run_groups(4, [](sotto_group* group, int rank) {
    sotto_gossiper* gossiper = nullptr;
    ASSERT_EQ(sotto_gossiper_create(group, "exponential", nullptr, "none", 1, 1, &gossiper), SOTTO_OK)
        << sotto_last_error(0);
    std::vector<float> values{static_cast<float>(rank), 8};
    double weight = 1;
    for (int round = 0; round < 60; ++round) {
      ASSERT_EQ(sotto_gossiper_mix(gossiper, values.data(), values.size(), nullptr, &weight), SOTTO_OK)
          << sotto_last_error(0);
    }
    EXPECT_EQ(sotto_gossiper_round(gossiper), 60);
    EXPECT_NEAR(values[0] / weight, 1.5, 1e-5);
    EXPECT_NEAR(values[1] / weight, 8, 1e-5);
    std::int64_t rounds = 0;
    EXPECT_EQ(sotto_gossiper_exact_after(gossiper, &rounds), SOTTO_OK);
    EXPECT_EQ(rounds, 2);
    weight = 0;
    EXPECT_EQ(sotto_gossiper_mix(gossiper, values.data(), values.size(), nullptr, &weight), SOTTO_CONFIG_ERROR);
    sotto_gossiper_free(gossiper);
  });
}

TEST(CapiGossip, RefusesATopologyThatIsNone) {
  test::run_groups(1, [](sotto_group* group, int /*rank*/) {
    sotto_gossiper* gossiper = nullptr;
    EXPECT_EQ(sotto_gossiper_create(group, "circle", "uniform", "none", 1, 1, &gossiper), SOTTO_CONFIG_ERROR);
    EXPECT_NE(std::string(sotto_last_error(0)).find("circle"), std::string::npos) << sotto_last_error(0);
  });
}

}  // namespace
}  // namespace sotto
