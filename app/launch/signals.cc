#include "app/launch/signals.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {
namespace {

// The pipe of the outermost object. A handler can only reach globals.
volatile std::sig_atomic_t read_end = -1, write_end = -1;

void queue(int number) {
  const int error = errno;
  const auto byte = static_cast<char>(number);
  static_cast<void>(!write(write_end, &byte, 1));  // fails only after 65,536 signals that nobody read
  errno = error;
}

}  // namespace

Signals::Signals() : is_outer_(read_end < 0) {
  if (!is_outer_) return;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error(fmt::format("cannot wait for signals: pipe: {}", std::strerror(errno)));
  }
  read_end = ends[0];
  write_end = ends[1];
  struct sigaction action {};
  action.sa_handler = queue;
  action.sa_flags = SA_RESTART;
  sigset_t ours;
  sigemptyset(&ours);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    sigaction(numbers[i], nullptr, &before_[i]);
    if (numbers[i] == SIGHUP && before_[i].sa_handler == SIG_IGN) continue;
    sigaddset(&ours, numbers[i]);
    sigaction(numbers[i], &action, nullptr);
  }
  pthread_sigmask(SIG_UNBLOCK, &ours, &mask_before_);  // a parent may have blocked them
  action.sa_handler = SIG_DFL;  // while SIGCHLD is ignored, as a parent may have asked for, waitpid() finds nobody
  sigaction(SIGCHLD, &action, &children_before_);
}

Signals::~Signals() {
  if (!is_outer_) return;
  for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &before_[i], nullptr);
  sigaction(SIGCHLD, &children_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  close(std::exchange(write_end, -1));
  close(std::exchange(read_end, -1));
}

int Signals::descriptor() { return read_end; }

int Signals::next() {
  char number = 0;
  return read(read_end, &number, 1) == 1 ? number : 0;
}

bool Signals::pending() {
  pollfd queued{read_end, POLLIN, 0};
  return poll(&queued, 1, 0) == 1;
}

}  // namespace sotto
