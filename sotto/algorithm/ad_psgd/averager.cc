#include "sotto/algorithm/ad_psgd/averager.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/plain_floats.h"
#include "sotto/core/thread.h"

namespace sotto {

Averager::Averager(PairPlan plan, PairedModel model, const Key& key, Communicator& communicator)
    : plan_(std::move(plan)),
      key_(key),
      ranks_(communicator.size()),
      model_(std::move(model)),
      roll_(communicator.rank(), ranks_),
      questioned_(static_cast<std::size_t>(ranks_)) {
  key_.rank = static_cast<std::uint16_t>(communicator.rank());
  if (ranks_ == 1) return;
  mailbox_ = communicator.open_mailbox(PairNote::bytes(ranks_) + model_.max_bytes());
  thread_ = start_thread("averaging", [this] { run(); });
}

Averager::~Averager() {
  if (!mailbox_) return;
  const bool failed = std::uncaught_exceptions() > exceptions_;
  try {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      abandoned_ = failed;
      failed ? mailbox_->cancel() : wake();
    }
    thread_.join();
    if (!failed) mailbox_->close();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): nobody is left to tell
  }
}

void Averager::read(std::span<float> x) {
  const std::lock_guard lock(mutex_);
  rethrow();
  shown_ = x;
  if (!resting_) {
    std::ranges::copy(model_.x(), x.begin());
    return;
  }
  model_.x().assign(x.begin(), x.end());
  quiet_ = resting_ = false;
  wake();
}

bool Averager::step(const std::function<void(std::span<float>)>& apply, bool wish, Phases& phases,
                    std::uint64_t meeting) {
  std::unique_lock lock(mutex_);
  rethrow();
  apply(model_.x());
  roll_.count_step();
  phases = std::exchange(phases_, {});
  if (!plan_.peers.empty() && plan_.every > 0 && roll_.steps() % plan_.every == 0) {
    due_ = true;
    wake();
  }
  if (plan_.each) return end(lock, wish);
  if (meeting > 0) {
    counts_ = true;
    wake();
    if (roll_.total_steps() / static_cast<std::uint64_t>(ranks_) >= meeting) return true;
  }
  return wish || roll_.somebody_meets();
}

// Whether this was the last step of all.
bool Averager::end(std::unique_lock<std::mutex>& lock, bool wish) {
  if (!wish && !roll_.somebody_ends()) return false;
  if (roll_.end() == 0) {
    roll_.end_behind(roll_.steps());
    lock.unlock();
    tell_all();
    lock.lock();
  }
  wait_for_all(lock, Roll::Await::end);
  return roll_.steps() >= roll_.common_end();
}

void Averager::wait_for_answer() {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = exchanges_;
  const bool always = !plan_.peers.empty() && plan_.every == 0;
  changed_.wait(lock, [&] { return error_ || exchanges_ > before || (!asked_ && (alone_ || (!due_ && !always))); });
  rethrow();
}

void Averager::rest() {
  std::unique_lock lock(mutex_);
  rethrow();
  const bool shown = resting_;  // and perhaps changed since, by an average of all
  quiet_ = true;
  due_ = false;
  changed_.wait(lock, [this] { return error_ || !asked_; });
  rethrow();
  resting_ = true;
  roll_.come_to_meeting();
  if (roll_.somebody_ends() && roll_.end() == 0) roll_.end_behind(roll_.steps() + 1);
  lock.unlock();
  tell_all();
  lock.lock();
  wait_for_all(lock, Roll::Await::meeting);
  if (!shown) std::ranges::copy(model_.x(), shown_.begin());
}

void Averager::abandon() {
  if (!mailbox_) return;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  mailbox_->cancel();
  thread_.join();
  mailbox_.reset();
}

// The averaging thread is told, so that it watches those who are waited for.
void Averager::wait_for_all(std::unique_lock<std::mutex>& lock, Roll::Await what) {
  awaited_ = what;
  awaited_since_ = Clock::now();
  wake();
  changed_.wait(lock, [&] { return error_ || roll_.all_have(what); });
  awaited_ = Roll::Await::nothing;
  rethrow();
}

void Averager::rethrow() {
  if (error_) std::rethrow_exception(error_);
}

// REQUIRES the lock.
void Averager::wake() {
  if (!mailbox_ || std::exchange(woken_, true)) return;
  mailbox_->send(key_.rank, {});
}

// REQUIRES the lock.
void Averager::write_letter(PairNote::Kind kind, std::uint32_t number, std::vector<std::byte>& letter) const {
  PairNote note;
  note.kind = kind;
  note.generation = key_.generation;
  note.number = number;
  roll_.write_to(note);
  letter.resize(PairNote::bytes(ranks_));
  write_note(note, letter);
}

void Averager::tell(int peer, PairNote::Kind kind) {
  std::vector<std::byte> letter;
  {
    const std::lock_guard lock(mutex_);
    write_letter(kind, 0, letter);
  }
  const bool sent = mailbox_->send(peer, letter);
  const std::lock_guard lock(mutex_);
  notes_ += sent ? 1 : 0;
}

void Averager::tell_all() {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != key_.rank) tell(peer, PairNote::Kind::news);
  }
}

std::vector<std::uint64_t> Averager::steps() const {
  const std::lock_guard lock(mutex_);
  return resting_ ? roll_.steps_at_meeting() : roll_.all_steps();
}

std::uint64_t Averager::known_steps() const {
  const std::lock_guard lock(mutex_);
  return roll_.total_steps();
}

std::uint64_t Averager::exchanges() const {
  const std::lock_guard lock(mutex_);
  return exchanges_;
}

std::uint64_t Averager::notes_sent() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

Traffic Averager::traffic() const { return mailbox_ ? mailbox_->traffic() : Traffic{}; }

void Averager::visit_state(StateVisitor& visitor) {
  const std::lock_guard lock(mutex_);
  model_.visit_state(visitor);
  roll_.visit_state(visitor);
  visitor.visit("ad_psgd.requests", number_);
}

}  // namespace sotto
