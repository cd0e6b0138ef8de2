#include "sotto/comm/world.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/core/options.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

// Empty variables count as not set.
std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::string required(const char* name, const char* because) {
  if (auto value = variable(name)) return *value;
  throw ConfigError(
      fmt::format("{} is not set, though {} is: start this process through its launcher, or set both", name, because));
}

int whole(const std::string& name, std::string_view text, int low, int high) {
  const auto value = parsed<int>(text);
  if (!value || *value < low || *value > high) {
    throw ConfigError(fmt::format("{}={}: must be a whole number in [{}, {}]", name, text, low, high));
  }
  return *value;
}

// Numbers with spaces between them.
std::vector<std::uint64_t> steps_in(const char* name, const std::string& text) {
  std::istringstream words(text);
  std::vector<std::uint64_t> steps;
  for (std::uint64_t step = 0; words >> step;) steps.push_back(step);
  if (!words.eof() || steps.empty()) throw ConfigError(fmt::format("{}={}: must be steps", name, text));
  return steps;
}

constexpr int most_ranks = 65535;  // messages have 16 bits for a rank

struct Names {
  const char *rank, *size, *local_rank, *local_size;
};

// Reads the ranks from four variables; the local ones may both be missing, which means one rank per host.
World numbered(const char* starter, const Names& names) {
  World world;
  world.starter = starter;
  world.size = whole(names.size, required(names.size, names.rank), 1, most_ranks);
  world.rank = whole(names.rank, required(names.rank, names.size), 0, world.size - 1);
  if (variable(names.local_rank) || variable(names.local_size)) {
    world.local_size = whole(names.local_size, required(names.local_size, names.local_rank), 1, world.size);
    world.local_rank = whole(names.local_rank, required(names.local_rank, names.local_size), 0, world.local_size - 1);
  }
  return world;
}

void meet_at(World& world, const std::string& said, const std::string& text) {
  const MeetingPlace place = read_meeting_place(said, text);
  world.host = place.host;
  world.port = place.port;
}

// If the launcher serves no store, rank 0 serves it: at the address from the flag, or else at a port that depends on
// the job. This port is below the range from which the system assigns ports.
void meet_at_rank_0(World& world, const std::string& master, const std::string& host, const std::string& job) {
  world.host_store = world.rank == 0;
  world.prefix = "sotto/" + job;
  if (!master.empty()) return meet_at(world, named("master", master), master);
  Hash hash;
  hash.add(job);
  world.host = host;
  world.port = static_cast<std::uint16_t>(15000 + hash.value() % 15000);
}

World from_sotto() {
  World world = numbered("sotto", {"SOTTO_RANK", "SOTTO_RANKS", "SOTTO_LOCAL_RANK", "SOTTO_LOCAL_RANKS"});
  if (world.size > 1 || variable("SOTTO_MASTER")) {
    const std::string master = required("SOTTO_MASTER", "SOTTO_RANK");
    meet_at(world, "SOTTO_MASTER=" + master, master);
  }
  world.prefix = "sotto";
  world.secret = variable("SOTTO_SECRET").value_or("");
  world.id = world.rank;
  constexpr int most = 1 << 30;
  if (const auto id = variable("SOTTO_COORDINATED")) {
    world.coordinated = true;
    world.id = whole("SOTTO_COORDINATED", *id, 0, World::most_ids - 1);
    const auto wait = variable("SOTTO_COORDINATOR_WAIT");
    if (wait) world.coordinator_wait = std::chrono::seconds(whole("SOTTO_COORDINATOR_WAIT", *wait, 1, most));
  }
  world.elastic = variable("SOTTO_GENERATION").has_value();
  if (world.elastic) {
    world.generation =
        static_cast<std::uint64_t>(whole("SOTTO_GENERATION", required("SOTTO_GENERATION", "SOTTO_RANK"), 0, most));
  }
  if (const auto ends = variable("SOTTO_ENDS")) {
    world.ends = steps_in("SOTTO_ENDS", *ends);
    world.id = whole("SOTTO_ID", required("SOTTO_ID", "SOTTO_ENDS"), 0, World::most_ids - 1);
    if (world.generation < 1 || world.generation > world.ends.size()) {
      throw ConfigError(fmt::format("SOTTO_GENERATION={}: SOTTO_ENDS has {}", world.generation, world.ends.size()));
    }
  }
  return world;
}

// The host of a variable that others read, too: an IPv6 address may stand in brackets there.
std::string host_of(std::string text) {
  const bool is_bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
  return is_bracketed ? text.substr(1, text.size() - 2) : text;
}

World from_torchrun(const std::string& master) {
  const bool by_hand = !variable("TORCHELASTIC_RUN_ID");
  World world =
      numbered(by_hand ? World::by_hand : "torchrun", {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  world.agent_store = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  world.host_store = world.rank == 0 && !world.agent_store;
  world.prefix = fmt::format("sotto/{}/{}", variable("TORCHELASTIC_RUN_ID").value_or("run"),
                             variable("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  if (world.size == 1 && !variable("MASTER_ADDR")) return world;
  const std::string address = required("MASTER_ADDR", "WORLD_SIZE");
  const std::string port = required("MASTER_PORT", "WORLD_SIZE");
  if (!master.empty()) {
    throw ConfigError(fmt::format("{}: {} has set MASTER_ADDR={} and MASTER_PORT={}; leave it out",
                                  named("master", master), world.starter, address, port));
  }
  world.host = host_of(address);
  world.port = static_cast<std::uint16_t>(whole("MASTER_PORT", port, 1, 65535));
  return world;
}

void require_meeting_point(const World& world, const std::string& master) {
  if (world.size == 1 || !master.empty()) return;
  throw ConfigError(
      fmt::format("the ranks that mpirun started do not know where to meet: pass {}, HOST being that of rank 0",
                  named("master", "HOST:PORT")));
}

World from_open_mpi(const std::string& master, bool meets) {
  World world = numbered("openmpi", {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                     "OMPI_COMM_WORLD_LOCAL_SIZE"});
  const auto job = variable("PMIX_NAMESPACE");
  if (!meets) return world;
  if (world.local_size != world.size || !job) require_meeting_point(world, master);
  meet_at_rank_0(world, master, "127.0.0.1", job.value_or("openmpi"));
  return world;
}

// MPICH's mpirun (Hydra); its jobs have no name that all ranks know.
World from_mpich(const std::string& master, bool meets) {
  World world = numbered("mpich", {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  if (!meets) return world;
  require_meeting_point(world, master);
  meet_at_rank_0(world, master, "127.0.0.1", "mpich");
  return world;
}

// The first host of "node[01-03,07],other": "node01"; a name may contain several brackets.
std::string first_host(const std::string& list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      host += list[at++];
      continue;
    }
    const auto close = list.find(']', at);
    if (close == std::string::npos)
      throw ConfigError(fmt::format("SLURM_STEP_NODELIST={}: a bracket is not closed", list));
    host += list.substr(at + 1, list.find_first_of("-,]", at) - at - 1);
    at = close + 1;
  }
  if (host.empty()) throw ConfigError(fmt::format("SLURM_STEP_NODELIST={}: no host stands first", list));
  return host;
}

// Entry `node` of a list such as "2(x3),1", which means 2, 2, 2, 1.
int tasks_of_node(const std::string& list, int node) {
  const char* const name = "SLURM_STEP_TASKS_PER_NODE";
  int first = 0;
  for (std::size_t at = 0; at <= list.size();) {
    const auto end = std::min(list.find(',', at), list.size());
    const std::string entry = list.substr(at, end - at);
    const auto times = entry.find("(x");
    const int tasks = whole(name, entry.substr(0, times), 1, most_ranks);
    int count = 1;
    if (times != std::string::npos) {
      if (entry.back() != ')') throw ConfigError(fmt::format("{}={}: cannot be read at `{}`", name, list, entry));
      count = whole(name, entry.substr(times + 2, entry.size() - times - 3), 1, most_ranks);
    }
    first += count;
    if (node < first) return tasks;
    at = end + 1;
  }
  throw ConfigError(fmt::format("SLURM_NODEID={}: {}={} has no such node", node, name, list));
}

World from_slurm(const std::string& master) {
  World world;
  world.starter = "slurm";
  world.size = whole("SLURM_NTASKS", required("SLURM_NTASKS", "SLURM_PROCID"), 1, most_ranks);
  world.rank = whole("SLURM_PROCID", required("SLURM_PROCID", "SLURM_STEP_ID"), 0, world.size - 1);
  const int node = whole("SLURM_NODEID", required("SLURM_NODEID", "SLURM_PROCID"), 0, most_ranks);
  world.local_size = tasks_of_node(required("SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID"), node);
  world.local_rank = whole("SLURM_LOCALID", required("SLURM_LOCALID", "SLURM_PROCID"), 0, world.local_size - 1);
  const std::string host =
      world.local_size == world.size ? "127.0.0.1" : first_host(required("SLURM_STEP_NODELIST", "SLURM_PROCID"));
  const std::string job = required("SLURM_JOB_ID", "SLURM_PROCID") + "." + required("SLURM_STEP_ID", "SLURM_PROCID");
  meet_at_rank_0(world, master, host, job + "/" + variable("SLURM_RESTART_COUNT").value_or("0"));
  return world;
}

}  // namespace

MeetingPlace read_meeting_place(const std::string& said, const std::string& text, int least_port) {
  const auto colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  const bool bracketed = host_of(host) != host;
  host = host_of(host);
  if (colon == std::string::npos || host.empty() || (!bracketed && host.find_first_of("[]: ") != std::string::npos)) {
    throw ConfigError(said + ": must be HOST:PORT, as in 10.0.0.1:29500");
  }
  const Bounds ports{static_cast<double>(least_port), 65535};
  return {host, static_cast<std::uint16_t>(parse_int(said + ": the port", text.substr(colon + 1), ports))};
}

std::string text_of(const MeetingPlace& place) {
  const bool is_six = place.host.find(':') != std::string::npos;
  return (is_six ? "[" + place.host + "]" : place.host) + ":" + std::to_string(place.port);
}

// The starter closest to the ranks is checked first: torchrun or our launcher may run below srun, and mpirun in a batch
// script.
World find_world(const std::string& master, bool meets) {
  if (!master.empty()) static_cast<void>(read_meeting_place(named("master", master), master));  // also if unused
  if (variable("SOTTO_RANK") || variable("SOTTO_RANKS")) return from_sotto();
  if (variable("RANK") || variable("WORLD_SIZE")) return from_torchrun(master);
  if (variable("OMPI_COMM_WORLD_RANK") || variable("OMPI_COMM_WORLD_SIZE")) return from_open_mpi(master, meets);
  if (variable("PMI_RANK") && variable("MPI_LOCALNRANKS"))
    return from_mpich(master, meets);  // srun sets the first, too
  // Without SLURM_STEP_ID this is the shell of a batch script: srun did not start us.
  if (variable("SLURM_STEP_ID") && variable("SLURM_PROCID")) return from_slurm(master);
  return {};
}

}  // namespace sotto
