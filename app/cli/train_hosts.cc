#include "app/cli/train_hosts.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// How many ranks each host has.
std::int64_t ranks_of_each(const JobHosts& hosts, std::string_view wanted_by) {
  const std::int64_t ranks = hosts.list.front().ranks;
  const auto as_many = [&](const JobHost& host) { return host.ranks == ranks; };
  if (std::ranges::all_of(hosts.list, as_many)) return ranks;
  throw ConfigError(fmt::format("{}: the hosts of --hosts have different numbers of ranks", wanted_by));
}

}  // namespace

std::optional<JobHosts> read_job_hosts(const HostFlags& flags, TrainOptions& options) {
  if (flags.hosts.empty()) return std::nullopt;
  JobHosts hosts{.list = read_hosts(flags.hosts),
                 .ssh = flags.reached.read(),
                 .version = version_text(),
                 .secret = {},
                 .spelling = flag_spelling};
  const std::int64_t ranks = ranks_of(hosts.list);
  if (options.ranks != 0 && options.ranks != ranks) {
    throw ConfigError(fmt::format("--ranks {}: the hosts of --hosts have {}; leave --ranks out", options.ranks, ranks));
  }
  options.ranks = ranks;
  if (options.topology == "hosts")
    options.topology = fmt::format("hosts({})", ranks_of_each(hosts, "--topology hosts"));
  if (options.node_size == 0) options.node_size = ranks_of_each(hosts, "--node-size 0");
  return hosts;
}

void take_secret(JobHosts& hosts, const Transport& transport, TrainOptions& options) {
  if (transport.refuses("secret")) return;
  hosts.secret = options.transport.secret.empty() ? new_secret() : read_secret(options.transport.secret);
  options.transport.secret.clear();
}

}  // namespace sotto
