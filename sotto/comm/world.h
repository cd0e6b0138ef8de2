#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace sotto {

class StoreService;

// Who this process is in a job, and where the ranks meet. Read from the variables of its starter.
struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the ranks of this host
  // "sotto", "torchrun", "openmpi", "mpich", "slurm", "single", or `by_hand`
  std::string starter = "single";
  static constexpr const char* by_hand = "whoever set RANK and WORLD_SIZE";
  std::string host = "127.0.0.1";  // of the store where the ranks meet
  std::uint16_t port = 0;
  bool host_store = false;   // this rank must serve the store (false when the launcher or torchrun's agent does)
  bool agent_store = false;  // torchrun's agent serves it, a store of c10d
  const StoreService* stores = nullptr;  // how that store is served and reached (group/store.h)
  std::string secret;                    // file with the secret of the job (secret.h), from the starter; empty: none
  std::string prefix;                    // of keys in the store: a restarted job must not read the keys of an old one

  // If the group may change while the job runs (membership.h):
  bool elastic = false;
  bool coordinated = false;                    // ranks come by themselves; a coordinator serves the store
  std::chrono::seconds coordinator_wait{600};  // how long to wait for another coordinator
  int id = 0;                                  // the number that this rank keeps, less than most_ids
  std::uint64_t generation = 0;                // of which this rank is a member
  std::string failure;                         // why this generation only writes a checkpoint; empty: it trains
  bool alone = false;  // a group of one rank, which only writes a checkpoint, unless there is one of this step or later
  // For a planned job: the step before which each generation ends. The first element is that step for generation 1; the
  // last element is most_steps.
  std::vector<std::uint64_t> ends;

  // Whether a signal ends this rank while it waits for others. Otherwise the launcher, which got the signal too, makes
  // the ranks that are left write a checkpoint.
  bool ends_at_signal() const { return !alone && (!elastic || coordinated || planned()); }

  // REQUIRES `stores`. find_world() leaves it null; a caller that knows a store service sets it.
  const StoreService& store_service() const {
    if (stores == nullptr) throw std::logic_error("no store service was given");
    return *stores;
  }

  static constexpr int most_ids = 1 << 30;  // that a coordinator gives out: each rank that comes gets a new one
  static constexpr std::uint64_t most_steps = ~std::uint64_t{0};
  bool planned() const { return !ends.empty(); }
  // The step before which this generation ends; most_steps if the job is not planned.
  std::uint64_t planned_end() const { return planned() ? ends.at(generation - 1) : most_steps; }
};

// Reads the variables of our launcher (SOTTO_*), torchrun (or another program that sets torchrun's), Open MPI, MPICH or
// SLURM. ConfigError if they contradict each other or are malformed. `master` is "host:port", from a flag, or empty.
// `meets` is false if the transport itself connects the ranks (Transport::own_meeting), so that no store is needed.
World find_world(const std::string& master, bool meets = true);

struct MeetingPlace {
  std::string host;
  std::uint16_t port = 0;
};
// Reads "host:port" or "[IPv6 address]:port". ConfigError, whose text begins with `said`, if `text` is neither, or the
// port is below `least_port`.
MeetingPlace read_meeting_place(const std::string& said, const std::string& text, int least_port = 1);
std::string text_of(const MeetingPlace& place);  // as read_meeting_place() reads it

}  // namespace sotto
