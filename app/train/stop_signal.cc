#include "app/train/stop_signal.h"

#include <unistd.h>

#include <ctime>

namespace sotto {
namespace {

volatile std::sig_atomic_t caught_signal = 0;  // a signal handler can only reach globals

volatile std::sig_atomic_t caught_at = 0;

// Seconds of a clock that a signal handler may read.
std::sig_atomic_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::sig_atomic_t>(time.tv_sec);
}

// A starter often forwards a signal that the whole process group got already, so only a later one ends the process at
// once.
void note(int signal) {
  if (signal == SIGHUP) signal = SIGTERM;
  if (caught_signal != 0 && signal == SIGUSR1) return;
  const bool before = caught_signal != 0 && caught_signal != SIGUSR1;
  if (before && now() - caught_at >= 2) _exit(128 + signal);
  if (before) return;
  caught_at = now();
  caught_signal = signal;
}

}  // namespace

StopSignal::StopSignal() {
  caught_signal = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    sigaction(numbers[i], nullptr, &before_[i]);
    if (numbers[i] != SIGHUP || before_[i].sa_handler != SIG_IGN) sigaction(numbers[i], &action, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &before_[i], nullptr);
}

int StopSignal::caught() { return caught_signal; }

}  // namespace sotto
