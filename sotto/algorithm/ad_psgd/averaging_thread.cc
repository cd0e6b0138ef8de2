// What the thread of an Averager does.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sotto/algorithm/ad_psgd/averager.h"
#include "sotto/core/error.h"
#include "sotto/core/plain_floats.h"

namespace sotto {
namespace {

constexpr int questions = 8;                      // to a silent rank within the deadline
constexpr std::chrono::milliseconds glance{200};  // no message says that a rank has left

}  // namespace

void Averager::run() {
  const PlainFloats floats;
  try {
    while (turn()) {
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

// Until a message comes, or it is time to look after the others. False: this is the end.
bool Averager::turn() {
  ask();
  {
    std::unique_lock lock(mutex_);
    if (abandoned_ || (ending_ && !asked_)) return false;
    if (!frozen()) {
      lock.unlock();
      for (Mail& mail : held_) {
        naming(mail.sender, [&] { answer(mail); });
        mailbox_->recycle(std::move(mail));
      }
      held_.clear();
    }
  }
  inquire();
  const auto most = std::min(mailbox_->deadline() / (2 * questions), glance);
  auto taken = Clock::now() + most;  // all that came before
  if (auto mail = mailbox_->poll(most)) {
    taken = mail->arrived;
    take(std::move(*mail));
  }
  watch(taken);
  return true;
}

void Averager::ask() {
  int peer = 0;
  {
    const std::lock_guard lock(mutex_);
    if (plan_.peers.empty() || asked_ || quiet_ || ending_ || (plan_.every > 0 && !due_)) return;
    due_ = false;
    peer = next_peer();
    if (peer < 0) {
      alone_ = true;
      changed_.notify_all();
      return;
    }
    const auto number = static_cast<std::uint32_t>(number_++);
    offer(PairNote::Kind::request, number);
    asked_ = Asked{peer, number, Clock::now()};
  }
  if (mailbox_->send(peer, letter_)) return;
  const std::lock_guard lock(mutex_);
  asked_.reset();
  changed_.notify_all();
}

// That has not left; below 0: all have.
int Averager::next_peer() {
  for (std::size_t i = 0; i < plan_.peers.size(); ++i, ++number_) {
    const int peer = plan_.peers[number_ % plan_.peers.size()];
    if (!mailbox_->has_left(peer)) return peer;
  }
  return -1;
}

// REQUIRES the lock.
void Averager::offer(PairNote::Kind kind, std::uint32_t number) {
  const Timer timer;
  key_.step = static_cast<std::uint32_t>(roll_.steps());
  write_letter(kind, number, letter_);
  model_.offer(key_, letter_);
  phases_.encode += timer.seconds();
}

void Averager::take(Mail mail) {
  const int sender = mail.sender;
  if (sender == key_.rank) {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    return;
  }
  naming(sender, [&] {
    const auto model = read_note(mail.data, ranks_, note_);
    if (note_.generation != key_.generation) throw WireError("it is of another group of ranks");
    hear(sender);
    if (note_.kind == PairNote::Kind::request) take_request(std::move(mail));
    if (note_.kind == PairNote::Kind::answer) take_answer(sender, model);
    if (note_.kind == PairNote::Kind::question) tell(sender, PairNote::Kind::news);
  });
  if (!mail.data.empty()) mailbox_->recycle(std::move(mail));
}

// What the note says of ranks.
void Averager::hear(int sender) {
  bool wish = false;
  {
    const std::lock_guard lock(mutex_);
    roll_.hear(sender, note_, Clock::now());
    // Who takes no step now can end behind the next one.
    wish = resting_ && roll_.somebody_ends() && roll_.end() == 0;
    if (wish) roll_.end_behind(roll_.steps() + 1);
    changed_.notify_all();
  }
  if (wish) tell_all();
}

// What it throws of a message says whose.
void Averager::naming(int sender, const std::function<void()>& f) const {
  try {
    f();
  } catch (const WireError& error) {
    throw WireError(fmt::format("rank {}: message of rank {}: {}", key_.rank, sender, error.what()));
  }
}

void Averager::take_request(Mail mail) {
  if (!plan_.peers.empty()) throw WireError("it asks for a model, and this rank is one of those that ask");
  if (std::ranges::find(held_, mail.sender, &Mail::sender) != held_.end()) {
    throw WireError("it asks again before it was answered");
  }
  bool later = false;
  {
    const std::lock_guard lock(mutex_);
    later = frozen();
  }
  if (later) return held_.push_back(std::move(mail));
  answer(mail);
  mailbox_->recycle(std::move(mail));
}

void Averager::answer(const Mail& mail) {
  open(mail.sender, read_note(mail.data, ranks_, note_));
  {
    const std::lock_guard lock(mutex_);
    offer(PairNote::Kind::answer, note_.number);
    const Timer timer;
    model_.move();
    ++exchanges_;
    phases_.decode += timer.seconds();
  }
  mailbox_->send(mail.sender, letter_);
}

void Averager::take_answer(int sender, std::span<const std::byte> model) {
  const std::lock_guard lock(mutex_);
  if (!asked_ || asked_->peer != sender || asked_->number != note_.number) {
    throw WireError(fmt::format("it answers request {}, which this rank does not wait for", note_.number));
  }
  open(sender, model);
  phases_.network += std::chrono::duration<double>(Clock::now() - asked_->since).count();
  const Timer timer;
  model_.move();
  ++exchanges_;
  phases_.decode += timer.seconds();
  asked_.reset();
  changed_.notify_all();
}

void Averager::open(int sender, std::span<const std::byte> model) {
  model_.open(model, {.generation = key_.generation,
                      .origin = static_cast<std::uint16_t>(sender),
                      .step = static_cast<std::uint32_t>(note_.steps[static_cast<std::size_t>(sender)])});
}

// Counts come with every message. Once a step, who was heard of longest ago is asked, if that was before the last step.
// Its averaging thread answers, so nobody waits for a slow rank, and one that says nothing has one question at most.
void Averager::inquire() {
  int silent = -1;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(counts_, false)) return;
    for (int peer = 0; peer < ranks_; ++peer) {
      const auto heard = roll_.heard(peer);
      if (peer == key_.rank || heard > inquired_ || questioned_[static_cast<std::size_t>(peer)] > heard) continue;
      if (!mailbox_->has_left(peer) && (silent < 0 || heard < roll_.heard(silent))) silent = peer;
    }
  }
  inquired_ = Clock::now();
  if (silent < 0) return;
  questioned_[static_cast<std::size_t>(silent)] = inquired_;
  tell(silent, PairNote::Kind::question);
}

// Those that something is waited for are asked for a sign of life now and then. They are lost when none came in all
// that was taken: a silence may be this thread's own, which had much to do, or was stopped for a while.
void Averager::watch(Clock::time_point taken) {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != key_.rank && must_be_questioned(peer, taken)) tell(peer, PairNote::Kind::question);
  }
}

bool Averager::must_be_questioned(int peer, Clock::time_point taken) {
  const std::lock_guard lock(mutex_);
  const bool asked = asked_ && asked_->peer == peer;
  if (mailbox_->has_left(peer)) {
    roll_.leave(peer);
    if (asked) asked_.reset();
    changed_.notify_all();
    return false;
  }
  if (!asked && !roll_.lacks(peer, awaited_)) return false;
  const auto last = asked ? std::max(asked_->since, roll_.heard(peer)) : std::max(awaited_since_, roll_.moved(peer));
  if (taken - last > mailbox_->deadline()) {
    throw CommError(fmt::format("rank {}: rank {} {} for {:g} s; it has made {} steps, this rank {}", key_.rank, peer,
                                asked ? "was asked for its model and said nothing" : "made no step that is waited for",
                                std::chrono::duration<double>(mailbox_->deadline()).count(), roll_.steps_of(peer),
                                roll_.steps()));
  }
  const auto now = Clock::now();
  auto& questioned = questioned_[static_cast<std::size_t>(peer)];
  if (questioned > roll_.heard(peer)) return false;  // it has that question yet
  if (now - std::max(last, questioned) <= mailbox_->deadline() / questions) return false;
  questioned = now;
  return true;
}

}  // namespace sotto
