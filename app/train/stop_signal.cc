#include "app/train/stop_signal.h"

#include <fmt/format.h>
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

// Starters often forward a signal that the whole process group got already. Only a signal that comes two seconds later
// ends the process at once.
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

bool Interruption::wished(bool can_go_on) const {
  return StopSignal::caught() != 0 || error_ || (is_late() && can_go_on);
}

int Interruption::agreed_urgency(Communicator& communicator) const {
  auto urgency =
      static_cast<double>(error_ ? StopSignal::failed_rank + rank_ : StopSignal::urgency(StopSignal::caught()));
  communicator.all_reduce(std::span(&urgency, 1), ReduceOp::max);
  return static_cast<int>(urgency);
}

bool Interruption::agreed_late(Communicator& communicator) const {
  auto late = is_late() ? 1.0F : 0.0F;
  communicator.all_reduce(std::span(&late, 1), ReduceOp::max);
  return late > 0;
}

void Interruption::end_in_error(int failed_rank, std::uint64_t done) const {
  if (error_) std::rethrow_exception(error_);
  throw CommError(fmt::format("rank {} ended the run after step {} because of an error", failed_rank, done));
}

}  // namespace sotto
