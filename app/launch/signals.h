#pragma once

#include <array>
#include <csignal>

namespace sotto {

// While an object of this class lives, SIGINT, SIGTERM, SIGUSR1 and SIGHUP do not end this process: they are queued,
// one by one, and the launcher waits for them together with its processes. SIGHUP stays ignored where it is (nohup).
//
// Handlers write them into a pipe, whichever thread the kernel chooses. A mask and a signalfd would lose them: a mask
// holds only for threads that were made after it, and libraries have their own threads. OpenMP starts one when a
// command builds a model before it starts ranks.
//
// An object that is made while another one lives uses the other one's pipe, so that a command that starts several jobs
// misses no signal between them. Objects end in the reverse order of their making.
class Signals {
 public:
  Signals();  // Error when there is no descriptor left
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  static int descriptor();  // readable when a signal is queued
  static int next();        // the next signal that was queued, without waiting; 0: none
  static bool pending();    // whether one is queued

 private:
  static constexpr std::array numbers{SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  bool is_outer_ = false;
  std::array<struct sigaction, numbers.size()> before_{};
  struct sigaction children_before_ {};
  sigset_t mask_before_{};
};

}  // namespace sotto
