#include "sotto/algorithm/server/server_thread.h"

#include <fmt/format.h>

#include "sotto/core/floats.h"

namespace sotto {

ServerThread::ServerThread(Server& server, Mailbox& requests, std::function<void()> on_failure)
    : server_(server),
      requests_(requests),
      on_failure_(std::move(on_failure)),
      thread_(start_thread("the server", [this] { run(); })) {}

ServerThread::~ServerThread() {
  {
    const Lock lock(mutex_);
    shared_.state = State::ending;
  }
  requests_.cancel();
  changed_.notify_all();
  thread_.join();
}

void ServerThread::work(std::span<const std::uint64_t> steps, std::span<const float> parameters, Optimiser& optimiser) {
  const Lock lock(mutex_);
  throw_error();
  if (shared_.state == State::working) return;
  server_.begin(steps, parameters, optimiser);
  shared_.optimiser = &optimiser;
  shared_.common_steps = server_.common_steps();
  shared_.meets = server_.meets();
  shared_.state = State::working;
  changed_.notify_all();
}

double ServerThread::wait_for_step(std::uint64_t step) {
  Lock lock(mutex_);
  changed_.wait(lock,
                [&]() SOTTO_REQUIRES(mutex_) { return shared_.error || shared_.meets || shared_.common_steps > step; });
  throw_error();
  return shared_.loss;
}

void ServerThread::wait_for_rest() {
  Lock lock(mutex_);
  changed_.wait(lock, [&]() SOTTO_REQUIRES(mutex_) { return shared_.error || shared_.state != State::working; });
  throw_error();
}

void ServerThread::check() {
  const Lock lock(mutex_);
  throw_error();
}

Timings ServerThread::take_timings() {
  const Lock lock(mutex_);
  return std::exchange(shared_.timings, {});
}

void ServerThread::throw_error() const {
  if (shared_.error) std::rethrow_exception(shared_.error);
}

void ServerThread::run() {
  const PlainFloats floats;
  try {
    while (true) {
      Lock lock(mutex_);
      changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return shared_.state != State::resting; });
      if (shared_.state == State::ending) return;
      Optimiser& optimiser = *shared_.optimiser;
      lock.unlock();
      serve(optimiser);
      lock.lock();
      if (shared_.state == State::ending) return;
      shared_.state = State::resting;
      changed_.notify_all();
    }
  } catch (...) {
    {
      const Lock lock(mutex_);
      shared_.error = std::current_exception();
    }
    changed_.notify_all();
  }
  on_failure_();
  discard();
}

// A worker that owes a gradient, and was silent for too long, is lost: CommError. But first the server takes all mail
// that came until a little later, because the silence may be this thread's own: it was busy, or stopped for a while.
// Workers lose patience later than the server, so that the server can name the rank for which all waited.
void ServerThread::serve(Optimiser& optimiser) {
  const auto quarter = requests_.deadlines().least() / 4;
  const auto grace = quarter / 8;
  auto reminded = Clock::now();
  auto taken = reminded;  // all mail from before then was taken
  int late = -1;          // the rank whose time is up, since `seen`
  Clock::time_point seen{};
  while (!server_.at_rest()) {
    const auto now = Clock::now();
    const auto [rank, step, since] = server_.slowest();
    const auto longest = requests_.deadline() * 3 / 4;
    const bool overdue = rank >= 0 && now - since >= longest;
    if (overdue && rank == late && taken >= seen + grace) {
      throw CommError(fmt::format("rank {}: the server waits for rank {} at step {}: nothing came for {:g} s",
                                  requests_.rank(), rank, step, std::chrono::duration<double>(longest).count()));
    }
    if (overdue && rank != late) seen = now;
    late = overdue ? rank : -1;
    if (now - reminded >= quarter) {
      server_.remind();
      reminded = now;
    }
    auto until = reminded + quarter;
    if (rank >= 0) until = std::min(until, (overdue ? seen + grace : since + longest));
    taken = serve_next(std::chrono::ceil<std::chrono::milliseconds>(std::max(until, now) - now), optimiser);
    const Lock lock(mutex_);
    if (shared_.state == State::ending) return;
  }
}

// Takes one mail at most. Returns the time before which all mail was taken.
Clock::time_point ServerThread::serve_next(std::chrono::milliseconds most, Optimiser& optimiser) {
  const auto nothing_until = Clock::now() + most;
  auto mail = requests_.poll(most);
  if (!mail) return nothing_until;
  const auto arrived = mail->arrived;
  const Timings done = server_.take(mail->sender, mail->data, optimiser);
  requests_.recycle(std::move(*mail));
  const Lock lock(mutex_);
  shared_.common_steps = server_.common_steps();
  shared_.meets = server_.meets();
  shared_.loss = server_.loss();
  shared_.timings += done;
  changed_.notify_all();
  return arrived;
}

// Throws away all mail that comes, because this rank's own worker may wait for room in the mailbox.
void ServerThread::discard() {
  Lock lock(mutex_);
  while (shared_.state != State::ending) {
    lock.unlock();
    try {
      while (auto mail = requests_.poll(std::chrono::milliseconds(20))) requests_.recycle(std::move(*mail));
    } catch (const CommError&) {  // NOLINT(bugprone-empty-catch): the server has failed already
    }
    lock.lock();
    changed_.wait_for(lock, std::chrono::milliseconds(20),
                      [this]() SOTTO_REQUIRES(mutex_) { return shared_.state == State::ending; });
  }
}

}  // namespace sotto
