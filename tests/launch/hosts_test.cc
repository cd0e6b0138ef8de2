#include "app/launch/hosts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sotto/core/error.h"

namespace sotto {
namespace {

std::string shown(const std::vector<JobHost>& hosts) {
  std::string text;
  for (const JobHost& host : hosts) text += host.name + " " + std::to_string(host.ranks) + "\n";
  return text;
}

std::string refusal(const std::string& text) {
  try {
    return "no error, but " + shown(read_hosts(text));
  } catch (const ConfigError& error) {
    return error.what();
  }
}

class HostsFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& text) const {
    std::ofstream(folder_ / "hosts") << text;
    return (folder_ / "hosts").string();
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("hosts-" + std::to_string(::getpid()) + "-" + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST(Hosts, AreReadFromAList) {
  EXPECT_EQ(shown(read_hosts("node1:4,node2:2")), "node1 4\nnode2 2\n");
  EXPECT_EQ(shown(read_hosts("node1")), "node1 1\n");
  EXPECT_EQ(shown(read_hosts("me@node1.example.org:3,10.0.0.2")), "me@node1.example.org 3\n10.0.0.2 1\n");
}

TEST(Hosts, HaveAddressesOfIPv6) {
  EXPECT_EQ(shown(read_hosts("[fd00::1]:4,me@[fe80::2%eth0]:2,[::3]")), "fd00::1 4\nme@fe80::2%eth0 2\n::3 1\n");
  EXPECT_EQ(shown(read_hosts("fd00::1:4")), "fd00::1:4 1\n") << "without brackets all colons are the address's";
}

TEST_F(HostsFile, IsThatOfMpirun) {
  EXPECT_EQ(
      shown(read_hosts(file("# the cluster\nnode1 slots=4\n\nnode2 slots=2 max_slots=8  # slow\nnode3:3\r\nnode4"))),
      "node1 4\nnode2 2\nnode3 3\nnode4 1\n");
}

TEST_F(HostsFile, IsThatOfGridEngine) {
  EXPECT_EQ(shown(read_hosts(file("node1 4 all.q@node1 UNDEFINED\nnode2.example.org 2 all.q@node2 <NULL>\n"))),
            "node1 4\nnode2.example.org 2\n");
  EXPECT_EQ(shown(read_hosts(file("node1 4 all.q@node1 0,0:0,1\nnode2 1\nnode1 2 long.q@node1 UNDEFINED\n"))),
            "node1 6\nnode2 1\n")
      << "a line for each queue";
}

TEST_F(HostsFile, IsThatOfPBS) {
  EXPECT_EQ(shown(read_hosts(file("node1\nnode1\nnode2\nnode1\n"))), "node1 3\nnode2 1\n") << "a line for each rank";
}

TEST_F(HostsFile, MayHaveSpacesAndAByteOrderMark) {
  EXPECT_EQ(shown(read_hosts(file("\xEF\xBB\xBFnode1 slots = 4\r\nnode2 slots= 2 max_slots =8\nnode3\tslots\t=\t3"))),
            "node1 4\nnode2 2\nnode3 3\n");
}

// ATOMO's scripts write three files: `hosts`, which they append to /etc/hosts, `hosts_alias` and `hosts_address`.
TEST_F(HostsFile, IsThatOfAtomo) {
  EXPECT_EQ(shown(read_hosts(file("172.31.1.7\tdeeplearning-worker1\n172.31.1.9\tdeeplearning-worker2\n"))),
            "172.31.1.7 1\n172.31.1.9 1\n");
  EXPECT_EQ(shown(read_hosts(file("deeplearning-worker1\ndeeplearning-worker2\n"))),
            "deeplearning-worker1 1\ndeeplearning-worker2 1\n");
  EXPECT_EQ(shown(read_hosts(file("172.31.1.7\n172.31.1.9\n"))), "172.31.1.7 1\n172.31.1.9 1\n");
  EXPECT_EQ(shown(read_hosts(file("fd00::7\tdeeplearning-worker1\n"))), "fd00::7 1\n");
}

TEST(Hosts, AreRefusedWithAReason) {
  EXPECT_EQ(refusal("node1:4,-oProxyCommand=x"),
            "hosts node1:4,-oProxyCommand=x: `-oProxyCommand=x` is no name of a host");
  EXPECT_EQ(refusal("me@-x:2"), "hosts me@-x:2: `me@-x` is no name of a host");
  EXPECT_EQ(refusal("a;b"), "hosts a;b: `a;b` is no name of a host");
  EXPECT_EQ(refusal("node1,,node2"), "hosts node1,,node2: `` is no name of a host");
  EXPECT_EQ(refusal(""), "hosts: `` is no name of a host");
  EXPECT_EQ(refusal("[fd00::1]4"), "hosts [fd00::1]4: `[fd00::1]4` is no host");
  EXPECT_EQ(refusal("fd00::1:2:3:4:5:6:7:4"),
            "hosts fd00::1:2:3:4:5:6:7:4: `fd00::1:2:3:4:5:6:7:4` is no address; say HOST:RANKS, or [fd00::1]:RANKS");
  EXPECT_NE(refusal("10.0.0.2:2:3").find("is no address; say HOST:RANKS"), std::string::npos);
  EXPECT_EQ(refusal("/tmp"), "hosts /tmp: is no file");
  EXPECT_EQ(refusal("node1,node1:2"), "hosts node1,node1:2: node1 stands there twice");
  EXPECT_EQ(refusal("a:65535,b"), "hosts a:65535,b: at most 65535 ranks make a job");
  EXPECT_EQ(refusal("no/such/file"), "hosts no/such/file: there is no such file");
  for (const std::string ranks : {"0", "-1", "x", "", "4x"}) {
    EXPECT_NE(refusal("node1:" + ranks).find("the number of ranks"), std::string::npos) << refusal("node1:" + ranks);
  }
}

TEST_F(HostsFile, IsRefusedWithTheLine) {
  const std::string path = file("node1 slots=4\nnode2 cores=4\n");
  EXPECT_EQ(refusal(path), "hosts " + path + ": line 2: `cores=4` is not known here, only slots=N");
  EXPECT_EQ(refusal(file("node1:4\nnode2\nnode1:4\n")),
            "hosts " + path + ": line 3: node1 stands there twice; say once how many ranks it has");
  EXPECT_EQ(refusal(file("node1 4 q@node1 UNDEFINED\nnode1\n")),
            "hosts " + path + ": line 2: node1 stands there twice; say once how many ranks it has");
  EXPECT_EQ(refusal(file("node1 4 node2 4\n")),
            "hosts " + path + ": line 1: `node2` is not known here; write one host a line, as node1 slots=4");
  EXPECT_NE(refusal(file("node1 0 q@node1 UNDEFINED\n")).find("line 1: the number of ranks"), std::string::npos);
  EXPECT_NE(refusal(file("node1 slots = x\n")).find("line 1: the number of ranks"), std::string::npos);
  EXPECT_EQ(refusal(file("# none\n")), "hosts " + path + ": the file names no host");
}

}  // namespace
}  // namespace sotto
