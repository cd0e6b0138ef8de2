#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/launch/hosts.h"
#include "app/launch/hosts_job.h"
#include "app/train/options/choices.h"
#include "app/train/options/options.h"
#include "sotto/comm/transport.h"
#include "sotto/core/options.h"

namespace sotto {

// The flags of commands that reach other machines.
struct SshFlags {
  std::string ssh = "ssh";
  std::string remote_sotto;
  void visit(OptionVisitor& v) {
    v.option("ssh", ssh, "how hosts are reached, such as \"ssh -p 2222 -i key\"; or use ~/.ssh/config");
    v.option("remote-sotto", remote_sotto, "where sotto is on the hosts; default: at the same path as here");
  }
  Ssh read() const;
};

// The flags of `sotto train` for ranks on other machines.
struct HostFlags {
  std::string hosts;
  SshFlags reached;
  void visit(OptionVisitor& v) {
    v.option("hosts", hosts,
             "machines to start ranks on by ssh, as in node1:4,me@node2:4, or a file with one a line; the usual "
             "--backend is then tcp");
    reached.visit(v);
  }
};

// The hosts of a job; nothing if all ranks run on this machine. Sets `ranks`, and the options that depend on the number
// of ranks per host. ConfigError if the options cannot be used on several machines.
std::optional<JobHosts> read_job_hosts(const HostFlags& flags, TrainOptions& options);

// Moves the secret from the options to `hosts`, because hosts get it over ssh. Makes one if none is given and the
// transport can use it.
void take_secret(JobHosts& hosts, const Transport& transport, TrainOptions& options);

// Reads --elastic. Returns the least number of ranks; 0 if the text is empty. Sets `ranks` to the greatest number,
// unless it is known already. ConfigError, in which `ranks_said` says where the known number comes from: "--ranks
// says".
std::int64_t read_elastic(const std::string& text, std::int64_t& ranks, std::string_view ranks_said);

// ConfigError, about that option, if the group of ranks of a run with these choices cannot change between these sizes.
void require_elastic(std::string_view option, const Choices& choices, std::int64_t least, std::int64_t most);

}  // namespace sotto
