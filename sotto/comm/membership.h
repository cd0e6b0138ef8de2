#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sotto/comm/stop.h"
#include "sotto/comm/world.h"

namespace sotto {

// Who is in a job whose ranks may be lost while it runs. A *generation* is a group of ranks that does not change. Every
// rank has an id, which it keeps; its number in a generation is its place among the ids. Ranks that lose their group
// say so and wait; the launcher sees who is left, and announces the next generation. Both use the launcher's store.

// In the launcher.
class Roster {
 public:
  // `store` must outlive this.
  explicit Roster(StoreServer& store) : store_(store) {}

  bool any_lost(std::uint64_t generation);  // whether some rank lost this generation's group
  // Why that rank lost this generation's group, in its words; nothing if it has not said so.
  std::optional<std::string> lost(std::uint64_t generation, int id);
  // Ranks of this generation that are still meeting, or come later, need not wait for that one, which has ended. `rank`
  // is its number in the generation.
  void end_meeting(std::uint64_t generation, int rank, const std::string& error);
  // From now on the ranks with these ids, ascending, are generation number `generation`.
  void announce(std::uint64_t generation, const std::vector<int>& ids);

 private:
  StoreServer& store_;
};

// In a rank: says that it lost its group, and why. Returns its place in the next generation as soon as that is
// announced. CommError if the launcher does not answer, or has left this rank out; Stopped if `stop` says so.
World next_generation(const World& world, const std::string& reason, const Stop& stop);

// In a rank that was started for the generation `world.generation`: its place in it, once it is announced.
World join_generation(const World& world, const Stop& stop);

}  // namespace sotto
