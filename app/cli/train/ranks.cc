#include "app/cli/train/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "sotto/aggregate/hierarchical.h"
#include "sotto/algorithm/algorithm.h"
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

Ssh SshFlags::read() const {
  const auto here = [] { return std::filesystem::read_symlink("/proc/self/exe").string(); };
  return {.command = ssh, .program = remote_sotto.empty() ? here() : remote_sotto};
}

std::optional<JobHosts> read_job_hosts(const HostFlags& flags, TrainOptions& options) {
  if (flags.hosts.empty()) return std::nullopt;
  JobHosts hosts{.list = read_hosts(flags.hosts),
                 .ssh = flags.reached.read(),
                 .version = version_text(),
                 .secret = {},
                 .spelling = flag_spelling};
  const std::int64_t ranks = ranks_of(hosts.list);
  refuse(options.ranks != 0 && options.ranks != ranks, "--ranks {}: the hosts of --hosts have {}; leave --ranks out",
         options.ranks, ranks);
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

std::int64_t read_elastic(const std::string& text, std::int64_t& ranks, std::string_view ranks_said) {
  if (text.empty()) return 0;
  const std::string said = "--elastic " + text;
  const RankRange range = read_rank_range(said, text);
  refuse(range.most && ranks != 0 && ranks != *range.most, "{}: {} {}; give MIN alone", said, ranks_said, ranks);
  ranks = range.most.value_or(ranks);
  refuse(range.least > std::max<std::int64_t>(1, ranks), "{}: the job has {} ranks", said,
         std::max<std::int64_t>(1, ranks));
  return range.least;
}

void require_elastic(std::string_view option, const Choices& choices, std::int64_t least, std::int64_t most) {
  const auto refuse = [&](const std::string& what, std::string_view why) {
    throw ConfigError(fmt::format("--{}: {} {}", option, what, why));
  };
  const AlgorithmSpec& algorithm = choices.algorithm;
  if (!algorithm.entry->with(algorithm.options).elastic) {
    std::vector<std::string> others;
    for (const AlgorithmEntry& entry : algorithm_table()) {
      if (entry.with(entry.options()).elastic) others.push_back(fmt::format("`{}`", entry.name));
    }
    refuse("`" + choices.options.algorithm + "`",
           fmt::format("cannot continue without some of its ranks; {} can", fmt::join(others, ", ")));
  }
  if (choices.options.node_size > 1) refuse(named("node-size"), "makes groups of one size; leave it out");
  if (group_of(choices.recipe.aggregator))
    refuse("`hierarchical`", "has groups of one size; choose another --aggregator");
  for (std::int64_t ranks = least; ranks <= most; ++ranks) {
    try {
      idle_ranks(algorithm, static_cast<int>(ranks));
      if (!algorithm.entry->graph.used) continue;
      check_graph(algorithm, choices.topology, choices.mixing, static_cast<int>(ranks));
    } catch (const ConfigError& error) {
      refuse(fmt::format("with {} rank{}:", ranks, ranks == 1 ? "" : "s"),
             error.text([](std::string_view name, std::string_view value) { return named(name, value); }));
    }
  }
}

}  // namespace sotto
