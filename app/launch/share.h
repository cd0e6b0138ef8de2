#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "app/launch/host_message.h"
#include "sotto/core/error.h"

namespace sotto {

// This machine's share of a job on several machines, which a launcher on another machine has started.
struct JobShare {
  std::int64_t first_rank = 0, all_ranks = 1;
  int secret = -1;  // descriptor of a file with the secret of the job; -1: it has none
  // From the launcher: "stop NUMBER"; if ranks may be lost, also "start-rank ID GENERATION", "kill-rank ID" and
  // "dismiss". Anything else is a sign of life.
  HostMessageReader* orders = nullptr;
  // Called with the meeting place before the ranks start, if they meet on this machine. Empty: they meet elsewhere, at
  // LaunchSpec::master.
  std::function<void(const std::string& master)> serves;
  // If ranks may be lost, tells the launcher which of them ended: "left ID" if the rank came to the end of the run,
  // "stopped ID" if it was asked to end, otherwise "lost ID WHY".
  std::function<void(const HostMessage&)> tell;
};

// The time between signs of life of the launcher. After the longest silence of the launcher, the ranks of a share are
// killed.
constexpr std::chrono::seconds sign_interval{5};
constexpr std::chrono::seconds longest_silence{60};

// The first words of a share to its launcher: the version of the program, and of the messages.
std::string greeting(const std::string& version);

// The other end of `sotto train` on hosts. It says which version it is, reads a job from stdin, and runs the job's
// ranks. To stdout it sends what they print and how they end. All of this goes as messages. Returns the exit status.
// The ranks are killed when stdin ends. ConfigError if the launcher's folder is missing here. `spelling`: of options in
// errors.
int run_share(const std::string& version, const Spelling& spelling);

}  // namespace sotto
