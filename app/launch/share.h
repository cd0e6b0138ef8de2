#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "app/launch/host_message.h"
#include "sotto/core/error.h"

namespace sotto {

// What this machine has of a job that runs on several, and that a launcher on another machine has started.
struct JobShare {
  std::int64_t first_rank = 0, all_ranks = 1;
  int secret = -1;  // descriptor of a file with the secret of the job; -1: it has none
  // From the launcher: "stop NUMBER"; if ranks may be lost, also "start-rank ID GENERATION", "kill-rank ID" and
  // "dismiss". Anything else is a sign of life.
  HostMessageReader* orders = nullptr;
  // If the ranks meet here: told where, before they start. Empty: they meet elsewhere, at LaunchSpec::master.
  std::function<void(const std::string& master)> serves;
  // To the launcher, if ranks may be lost: "left ID" of one that came to the end of the run, "stopped ID"
  // of one that was asked to end, "lost ID WHY" of others.
  std::function<void(const HostMessage&)> tell;
};

// Signs of life of the launcher, and how long its silence may be until the ranks of a share are killed.
constexpr std::chrono::seconds sign_interval{5};
constexpr std::chrono::seconds longest_silence{60};

// The first words of a share to its launcher: how it speaks, and which program it is.
std::string greeting(const std::string& version);

// The other end of `sotto train` on hosts: says which version this is, reads a job from stdin, runs its ranks, and
// sends what they print and how they end to stdout, all as messages. Returns the exit status. The ranks are killed when
// stdin ends. ConfigError if the launcher's folder is missing here.
// `spelling`: of options in errors.
int run_share(const std::string& version, const Spelling& spelling);

}  // namespace sotto
