#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/cli/ssh_flags.h"
#include "app/launch/hosts_job.h"
#include "app/train/options/options.h"
#include "sotto/comm/transport.h"

namespace sotto {

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

// Where the ranks of a job run; nothing if it is this machine. Sets `ranks`, and what depends on the ranks of a host.
// ConfigError if the options cannot be used on several machines.
std::optional<JobHosts> read_job_hosts(const HostFlags& flags, TrainOptions& options);

// Takes the secret out of the options of a job on hosts, which get it over ssh. Makes one if none is given and the
// transport can use it.
void take_secret(JobHosts& hosts, const Transport& transport, TrainOptions& options);

}  // namespace sotto
