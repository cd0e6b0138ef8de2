#include "sotto/launch/signals.h"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sotto/core/error.h"

namespace sotto {

Signals::Signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;  // while SIGCHLD is ignored, which a parent may have asked for, waitpid() finds nobody
  sigaction(SIGCHLD, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&set, number);
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  descriptor_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.open()) throw Error(fmt::format("signalfd: {}", std::strerror(errno)));
}

Signals::~Signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int Signals::next() {
  signalfd_siginfo info{};
  return read(descriptor_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace sotto
