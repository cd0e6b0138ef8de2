#include "sotto/comm/world.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "sotto/comm/group/store.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using Variables = std::map<std::string, std::string>;

// find_world() in a process that has only these of the variables that find_world() reads.
World world_of(const Variables& variables, const std::string& master = "", bool meets = true) {
  for (const char* name : {"SOTTO_RANK",
                           "SOTTO_RANKS",
                           "SOTTO_LOCAL_RANK",
                           "SOTTO_LOCAL_RANKS",
                           "SOTTO_MASTER",
                           "SOTTO_GENERATION",
                           "SOTTO_ENDS",
                           "SOTTO_ID",
                           "RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "TORCHELASTIC_USE_AGENT_STORE",
                           "TORCHELASTIC_RESTART_COUNT",
                           "TORCHELASTIC_RUN_ID",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "PMIX_NAMESPACE",
                           "PMI_RANK",
                           "PMI_SIZE",
                           "MPI_LOCALRANKID",
                           "MPI_LOCALNRANKS",
                           "SLURM_PROCID",
                           "SLURM_NTASKS",
                           "SLURM_LOCALID",
                           "SLURM_NODEID",
                           "SLURM_STEP_ID",
                           "SLURM_JOB_ID",
                           "SLURM_STEP_NODELIST",
                           "SLURM_STEP_TASKS_PER_NODE",
                           "SLURM_RESTART_COUNT"}) {
    ::unsetenv(name);
  }
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  return find_world(master, meets);
}

Variables with(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}

Variables without(Variables base, const std::string& name) {
  base.erase(name);
  return base;
}

void expect_error(const Variables& variables, const std::string& part, const std::string& master = "") {
  try {
    const World world = world_of(variables, master);
    ADD_FAILURE() << "no error, where `" << part << "` was expected; starter " << world.starter;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "`" << part << "` is not in: " << error.what();
  }
}

const Variables sotto{{"SOTTO_RANK", "1"},
                      {"SOTTO_RANKS", "4"},
                      {"SOTTO_LOCAL_RANK", "1"},
                      {"SOTTO_LOCAL_RANKS", "2"},
                      {"SOTTO_MASTER", "10.0.0.1:29500"}};
const Variables torchrun{{"RANK", "2"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "0"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "node1"},
                         {"MASTER_PORT", "29400"},
                         {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                         {"TORCHELASTIC_RUN_ID", "job7"},
                         {"TORCHELASTIC_RESTART_COUNT", "3"}};
const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "1234567"}};
const Variables mpich{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables slurm{{"SLURM_PROCID", "4"},
                      {"SLURM_NTASKS", "5"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NODEID", "2"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_JOB_ID", "77"},
                      {"SLURM_STEP_NODELIST", "node[03-05]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};

TEST(FindWorld, IsAloneWhenNothingStartedIt) {
  const World world = world_of({});
  EXPECT_EQ(world.starter, "single");
  EXPECT_EQ(world.size, 1);
  EXPECT_EQ(world.rank, 0);
  EXPECT_FALSE(world.host_store);
}

TEST(FindWorld, ReadsOurLauncher) {
  const World world = world_of(sotto);
  EXPECT_EQ(world.starter, "sotto");
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.size, 4);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.host, "10.0.0.1");
  EXPECT_EQ(world.port, 29500);
  EXPECT_FALSE(world_of(with(sotto, {{"SOTTO_RANK", "0"}})).host_store) << "the launcher serves the store";
  EXPECT_EQ(world_of(with(sotto, {{"SOTTO_MASTER", "[fe80::1]:80"}})).host, "fe80::1");
  EXPECT_EQ(world_of({{"SOTTO_RANK", "0"}, {"SOTTO_RANKS", "1"}}).size, 1);
  EXPECT_FALSE(world.elastic);
  const World elastic = world_of(with(sotto, {{"SOTTO_GENERATION", "3"}}));
  EXPECT_TRUE(elastic.elastic);
  EXPECT_EQ(elastic.id, 1);
  EXPECT_EQ(elastic.generation, 3U);
  EXPECT_THROW(world_of(with(sotto, {{"SOTTO_GENERATION", "-1"}})), ConfigError);
  EXPECT_EQ(elastic.planned_end(), World::most_steps);
  Variables plan =
      with(sotto, {{"SOTTO_GENERATION", "2"}, {"SOTTO_ID", "7"}, {"SOTTO_ENDS", "10 30 18446744073709551615"}});
  EXPECT_EQ(world_of(plan).planned_end(), 30U);
  EXPECT_EQ(world_of(plan).id, 7);
  EXPECT_EQ(world_of(with(plan, {{"SOTTO_GENERATION", "3"}})).planned_end(), World::most_steps);
  EXPECT_THROW(world_of(with(plan, {{"SOTTO_GENERATION", "4"}})), ConfigError);
  EXPECT_THROW(world_of(with(plan, {{"SOTTO_ENDS", "10 x"}})), ConfigError);
}

TEST(FindWorld, ReadsTorchrun) {
  World world = world_of(torchrun);
  EXPECT_EQ(world.starter, "torchrun");
  EXPECT_EQ(world.rank, 2);
  EXPECT_EQ(world.size, 4);
  EXPECT_EQ(world.local_rank, 0);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.host, "node1");
  EXPECT_EQ(world.port, 29400);
  EXPECT_EQ(world.prefix, "sotto/job7/3");
  EXPECT_FALSE(world.host_store);
  EXPECT_FALSE(world_of(with(torchrun, {{"RANK", "0"}})).host_store) << "the agent serves the store";
  EXPECT_TRUE(world_of(with(torchrun, {{"RANK", "0"}})).agent_store);
  EXPECT_FALSE(world_of(without(torchrun, "TORCHELASTIC_USE_AGENT_STORE")).agent_store);
  EXPECT_NE(world_of(with(torchrun, {{"TORCHELASTIC_RESTART_COUNT", "4"}})).prefix, world.prefix);
  EXPECT_TRUE(world_of(without(with(torchrun, {{"RANK", "0"}}), "TORCHELASTIC_USE_AGENT_STORE")).host_store);
  EXPECT_FALSE(world_of(without(torchrun, "TORCHELASTIC_USE_AGENT_STORE")).host_store);
  world = world_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(world.local_size, 1);
  EXPECT_EQ(world.local_rank, 0);
  EXPECT_EQ(world.starter, "whoever set RANK and WORLD_SIZE") << "torchrun sets TORCHELASTIC_RUN_ID, too";
  EXPECT_EQ(world_of(with(torchrun, {{"MASTER_ADDR", "[fd77::1]"}})).host, "fd77::1");
  EXPECT_EQ(world_of(with(torchrun, {{"MASTER_ADDR", "fd77::1"}})).host, "fd77::1");
}

TEST(FindWorld, ReadsOpenMpi) {
  const World world = world_of(open_mpi);
  EXPECT_EQ(world.starter, "openmpi");
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.size, 2);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.host, "127.0.0.1");
  EXPECT_GE(world.port, 15000);
  EXPECT_LT(world.port, 30000);
  EXPECT_FALSE(world.host_store);
  const World first = world_of(with(open_mpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}));
  EXPECT_TRUE(first.host_store);
  EXPECT_EQ(first.port, world.port);
  EXPECT_NE(world_of(with(open_mpi, {{"PMIX_NAMESPACE", "1234568"}})).port, world.port);

  const Variables far = with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_EQ(world_of(far, "node1:4000").host, "node1");
  EXPECT_EQ(world_of(far, "node1:4000").port, 4000);
  expect_error(far, "pass master HOST:PORT");
  EXPECT_EQ(world_of(far, "", false).rank, 1) << "MPI needs no meeting point";
}

TEST(FindWorld, ReadsMpich) {
  const World world = world_of(mpich, "node1:4000");
  EXPECT_EQ(world.starter, "mpich");
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.size, 4);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.host, "node1");
  EXPECT_EQ(world.port, 4000);
  expect_error(mpich, "pass master HOST:PORT");
  EXPECT_EQ(world_of(mpich, "", false).rank, 3) << "MPI needs no meeting point";
  EXPECT_EQ(world_of(with(slurm, {{"PMI_RANK", "4"}, {"PMI_SIZE", "5"}})).starter, "slurm") << "srun sets them, too";
}

TEST(FindWorld, ReadsSlurm) {
  const World world = world_of(slurm);
  EXPECT_EQ(world.starter, "slurm");
  EXPECT_EQ(world.rank, 4);
  EXPECT_EQ(world.size, 5);
  EXPECT_EQ(world.local_rank, 0);
  EXPECT_EQ(world.local_size, 1);
  EXPECT_EQ(world.host, "node03");
  EXPECT_FALSE(world.host_store);
  const World first = world_of(with(slurm, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}}));
  EXPECT_TRUE(first.host_store);
  EXPECT_EQ(first.local_size, 2);
  EXPECT_EQ(first.port, world.port);
  EXPECT_NE(world_of(with(slurm, {{"SLURM_STEP_ID", "1"}})).port, world.port);
  EXPECT_EQ(world_of(with(slurm, {{"SLURM_STEP_NODELIST", "a,b"}})).host, "a");
  EXPECT_EQ(world_of(with(slurm, {{"SLURM_STEP_NODELIST", "rack[7,9]-x,b[1-2]"}})).host, "rack7-x");
  EXPECT_EQ(world_of(with(slurm, {{"SLURM_STEP_NODELIST", "rack[2-3]node[05,9],x"}})).host, "rack2node05");
  EXPECT_EQ(world_of(slurm, "head:4000").port, 4000);
  const Variables one_node =
      with(slurm, {{"SLURM_NODEID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "5"}, {"SLURM_LOCALID", "4"}});
  EXPECT_EQ(world_of(one_node).host, "127.0.0.1");
}

TEST(FindWorld, IsAloneInTheShellOfABatchScript) {
  EXPECT_EQ(world_of(without(slurm, "SLURM_STEP_ID")).starter, "single");
}

TEST(FindWorld, BelievesWhatWasStartedLast) {
  EXPECT_EQ(world_of(with(with(with(slurm, open_mpi), torchrun), sotto)).starter, "sotto");
  EXPECT_EQ(world_of(with(with(slurm, open_mpi), torchrun)).starter, "torchrun");
  EXPECT_EQ(world_of(with(slurm, open_mpi)).starter, "openmpi");
}

TEST(FindWorld, NamesTheVariableThatCannotBe) {
  for (const char* text : {"x", "-1", "4", "1.5", "1 ", " 1", "99999999999999999999"}) {
    expect_error(with(sotto, {{"SOTTO_RANK", text}}),
                 "SOTTO_RANK=" + std::string(text) + ": must be a whole number in [0, 3]");
  }
  expect_error(with(sotto, {{"SOTTO_RANKS", "0"}}), "SOTTO_RANKS=0: ");
  expect_error(with(sotto, {{"SOTTO_LOCAL_RANKS", "5"}}), "SOTTO_LOCAL_RANKS=5: ");
  expect_error(with(sotto, {{"SOTTO_LOCAL_RANK", "2"}}), "SOTTO_LOCAL_RANK=2: ");
  for (const char* text : {"host", "host:", ":1", "host:0", "host:65536", "host:x", "a:b:1", "[]:1", "host:1x"}) {
    expect_error(with(sotto, {{"SOTTO_MASTER", text}}), "SOTTO_MASTER");
  }
  expect_error(without(sotto, "SOTTO_MASTER"), "SOTTO_MASTER is not set");
  expect_error(without(sotto, "SOTTO_RANK"), "SOTTO_RANK is not set, though SOTTO_RANKS is");
  expect_error(without(sotto, "SOTTO_RANKS"), "SOTTO_RANKS is not set, though SOTTO_RANK is");
  expect_error(without(sotto, "SOTTO_LOCAL_RANK"), "SOTTO_LOCAL_RANK is not set, though SOTTO_LOCAL_RANKS is");
  expect_error(with(torchrun, {{"MASTER_PORT", "0"}}), "MASTER_PORT=0: ");
  expect_error(without(torchrun, "MASTER_PORT"), "MASTER_PORT is not set");
  expect_error(without(torchrun, "MASTER_ADDR"), "MASTER_ADDR is not set");
  expect_error(torchrun, "master a:1: torchrun has set MASTER_ADDR=node1 and MASTER_PORT=29400", "a:1");
  expect_error({{"RANK", "0"}}, "WORLD_SIZE is not set, though RANK is");
  for (const Variables& starter : {Variables(), sotto, open_mpi}) {
    expect_error(starter, "master here: must be HOST:PORT", "here");
    expect_error(starter, "master :5: must be HOST:PORT", ":5");
    expect_error(starter, "the port", "1.2.3.4:70000");
  }
  expect_error(with(slurm, {{"SLURM_PROCID", "5"}}), "SLURM_PROCID=5: ");
  expect_error(with(slurm, {{"SLURM_NODEID", "3"}}), "SLURM_NODEID=3: ");
  expect_error(with(slurm, {{"SLURM_LOCALID", "1"}}), "SLURM_LOCALID=1: ");
  expect_error(with(slurm, {{"SLURM_STEP_NODELIST", "node[03"}}), "SLURM_STEP_NODELIST=node[03: ");
  expect_error(with(slurm, {{"SLURM_STEP_NODELIST", ",node1"}}), "no host stands first");
  for (const char* text : {"2(x2", "x", "(x2)", "2(y2),1", "2(x0),1", ",1"}) {
    expect_error(with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", text}}), "SLURM_STEP_TASKS_PER_NODE=");
  }
  for (const auto& [name, value] : slurm) {
    if (name != "SLURM_PROCID" && name != "SLURM_STEP_ID") expect_error(without(slurm, name), name + " is not set");
  }
}

TEST(VisibleText, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(visible("rank 1: no cable"), "rank 1: no cable");
  EXPECT_EQ(visible(std::string_view("a\x1b[2J\n\t\0\x9b\x7f", 10)), "a\\x1b[2J\\n\\t\\x00\\x9b\\x7f");
  EXPECT_EQ(visible("größer \xe2\x94\x82 \xf0\x9f\x98\x80"), "größer \xe2\x94\x82 \xf0\x9f\x98\x80");
  EXPECT_EQ(visible("\xc2\x9b"), "\\xc2\\x9b") << "a control character";
  EXPECT_EQ(visible("\xe2\x80\xae"), "\\xe2\\x80\\xae") << "it turns the order of what follows";
  EXPECT_EQ(visible("\xc0\x8a\xed\xa0\x80\xe2\x94"), "\\xc0\\x8a\\xed\\xa0\\x80\\xe2\\x94") << "no UTF-8";
  EXPECT_EQ(visible(visible("a\x1b\n")), visible("a\x1b\n"));
  EXPECT_LT(visible(std::string(1 << 20, 'x')).size(), 5000U);
}

}  // namespace
}  // namespace sotto
