// What holds for each transport of the table. What a transport has of its own is tested beside it.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "laws.h"
#include "processes.h"
#include "sotto/comm/transport.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

World rank_of_launcher(int rank, int size, int port) {
  World world;
  world.starter = "sotto";
  world.rank = world.local_rank = rank;
  world.size = world.local_size = size;
  world.port = static_cast<std::uint16_t>(port);
  world.prefix = "test";
  return world;
}

// Why ranks that the launcher starts on this machine cannot use it; empty: they can.
std::string obstacle(const Transport& transport, int ranks) {
  try {
    transport.require(rank_of_launcher(0, ranks, 0));
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Transports, HaveNamesAndSummaries) {
  std::set<std::string_view> names;
  for (const Transport& transport : transport_table()) {
    EXPECT_TRUE(names.insert(transport.name).second) << transport.name;
    EXPECT_FALSE(transport.summary.empty()) << transport.name;
    EXPECT_NE(transport_choices().find(transport.name), std::string::npos);
  }
  EXPECT_EQ(transport_choices().find("gloo; "), 0U) << "the default is the first";
}

// A transport that is refused here says by which name it was chosen.
TEST(Transports, RefusalsNameTheTransport) {
  for (const Transport& transport : transport_table()) {
    const std::string why = obstacle(transport, 1000);
    EXPECT_TRUE(why.empty() || why.find("backend " + std::string(transport.name)) != std::string::npos) << why;
  }
}

TEST(Transports, HoldTheLaws) {
  const ServerProcess server([](const auto& ready) {
    const StoreServer store("127.0.0.1");
    ready(store.port());
  });
  int used = 0;
  for (const Transport& transport : transport_table()) {
    for (const int ranks : {1, 2, 3}) {
      if (!obstacle(transport, ranks).empty()) continue;
      ++used;
      for (const Ended& ended : run_processes(ranks, 60, [&](int rank) {
             World world = rank_of_launcher(rank, ranks, server.port());
             world.prefix = std::string(transport.name) + std::to_string(ranks);
             TransportOptions options;
             options.deadline = options.connect_deadline = std::chrono::seconds(30);
             const auto communicator = transport.connect(world, options);
             check_laws(*communicator);
           })) {
        EXPECT_EQ(ended.status, 0) << transport.name << " on " << ranks << " ranks: " << ended.error;
      }
    }
  }
  EXPECT_GE(used, 3) << "Gloo works everywhere";
}

// Last, as it starts threads, and the tests above fork.
TEST(TransportsLast, ChecksFindWhatWasBuilt) {
  std::map<std::string_view, std::string> found;
  for (const Transport& transport : transport_table()) found[transport.name] = transport.check("");
  EXPECT_NE(found["gloo"].find("1 MiB all-reduce"), std::string::npos) << found["gloo"];
  EXPECT_THROW(transport_table().begin()->check("nosuch0"), ConfigError);
}

}  // namespace
}  // namespace sotto
