#include "sotto/train/stop_signal.h"

#include <unistd.h>

namespace sotto {
namespace {

volatile std::sig_atomic_t caught_signal = 0;  // a signal handler can reach nothing but a global

void note(int signal) {
  if (caught_signal != 0) _exit(128 + signal);
  caught_signal = signal;
}

}  // namespace

StopSignal::StopSignal() {
  caught_signal = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

int StopSignal::caught() { return caught_signal; }

}  // namespace sotto
