#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sotto {

// A machine on which ranks of a job run.
struct JobHost {
  std::string name;  // as ssh is told: "node1", "me@10.0.0.1", "fd00::1"
  std::int64_t ranks = 1;
};

// Reads a list, "node1:4,me@node2:4,[fd00::1]:2", or else the file of this name, with a host a line: as in a list, as
// for mpirun ("node1 slots=4"), as Grid Engine writes it ("node1 4 all.q@node1 UNDEFINED"), or as in /etc/hosts
// ("10.0.0.1 node1": the first word counts). A host without a number has one rank, or in a file as many as it has
// lines, as PBS writes them. ConfigError, which names the line, for anything else, or a host whose number is given
// twice.
std::vector<JobHost> read_hosts(const std::string& text);

std::int64_t ranks_of(const std::vector<JobHost>& hosts);

}  // namespace sotto
