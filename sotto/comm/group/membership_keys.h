#pragma once

#include <cstdint>
#include <string>

// The keys by which the ranks of a job whose group may change, and its launcher or coordinator, tell each other of it
// (membership.h).
namespace sotto::membership_keys {

inline const std::string latest = "generation";  // the number of the newest one
inline const std::string end = "end";            // no generation follows: an error, or nothing at the end of the run
inline const std::string saves = "saves";        // members save their state then
inline const std::string least = "least";        // ranks
inline const std::string most = "most";          // ranks; it is set last
inline const std::string next_id = "next id";
inline const std::string job = "job";  // a random name, which no two coordinators give their jobs

inline std::string of(const char* what, std::uint64_t generation) { return what + std::to_string(generation); }
inline std::string of(const char* what, int id) { return what + std::to_string(id); }

inline std::string members(std::uint64_t generation) { return of("members/", generation); }  // their ids
inline std::string failure(std::uint64_t generation) { return of("failure/", generation); }  // if it only saves
inline std::string any_left(std::uint64_t generation) {
  return of("left/", generation);
}  // some member has left it, or is lost
inline std::string moved(std::uint64_t generation) { return of("moved/", generation); }    // it began after more steps
inline std::string change(std::uint64_t generation) { return of("change/", generation); }  // members should leave it
inline std::string left(std::uint64_t generation, int id) { return any_left(generation) + of("/", id); }  // why
inline std::string beat(int id) { return of("beat/", id); }
inline std::string application(int id) { return of("application/", id); }  // secret.h
inline std::string come(int id) { return of("come/", id); }                // the coordinator has taken its application
inline std::string gone(int id) { return of("gone/", id); }  // why it never became a member, though it waits
inline std::string farewell(int id) { return of("farewell/", id); }

}  // namespace sotto::membership_keys
