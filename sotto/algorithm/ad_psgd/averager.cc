#include "sotto/algorithm/ad_psgd/averager.h"

namespace sotto {

Averager::Averager(PairPlan plan, PairedModel model, const Key& key, Communicator& communicator)
    : plan_(std::move(plan)),
      key_(key),
      ranks_(communicator.size()),
      shared_{.x = {}, .roll = Roll(communicator.rank(), ranks_), .tree = RollTree(communicator.rank(), ranks_)},
      own_{.model = std::move(model),
           .questioned = std::vector<Clock::time_point>(static_cast<std::size_t>(ranks_)),
           .late = std::vector<std::uint64_t>(static_cast<std::size_t>(ranks_))} {
  key_.rank = static_cast<std::uint16_t>(communicator.rank());
  if (ranks_ == 1) return;
  mailbox_ = communicator.open_mailbox(PairNote::bytes(ranks_) + own_.model.max_bytes());
  thread_ = start_thread("averaging", [this] { run(); });
}

Averager::~Averager() {
  if (!mailbox_) return;
  const bool failed = std::uncaught_exceptions() > exceptions_;
  try {
    {
      const Lock lock(mutex_);
      shared_.state = failed || shared_.state == State::resting ? State::ended : State::ending;
      failed ? mailbox_->cancel() : wake();
    }
    thread_.join();
    if (!failed) mailbox_->close();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): nobody is left to tell
  }
}

void Averager::read(std::span<float> x) {
  const Lock lock(mutex_);
  rethrow();
  if (shared_.state != State::resting) {
    std::ranges::copy(shared_.x, x.begin());
    return;
  }
  shared_.x.assign(x.begin(), x.end());
  shared_.state = State::at_work;
  wake();
}

bool Averager::step(const std::function<void(std::span<float>)>& apply, bool wish, Timings& timings,
                    std::uint64_t meeting) {
  Lock lock(mutex_);
  rethrow();
  Roll& roll = shared_.roll;
  apply(shared_.x);
  roll.count_step();
  timings = std::exchange(shared_.timings, {});
  if (!plan_.peers.empty() && plan_.every > 0 && roll.steps() % plan_.every == 0) {
    shared_.due = true;
    wake();
  }
  if (!plan_.each) {
    if (meeting > 0) {
      shared_.counts = true;
      wake();
      if (roll.total_steps() / static_cast<std::uint64_t>(ranks_) >= meeting) return true;
    }
    return wish || roll.somebody_meets();
  }
  if (!wish && !roll.somebody_ends()) return false;
  if (roll.end() == 0) {
    roll.end_behind(roll.steps());
    const Letters letters = announcement();
    lock.unlock();
    send(letters);
    lock.lock();
  }
  wait_for_all(lock, Roll::Await::end);
  return roll.steps() >= roll.common_end();
}

void Averager::wait_for_answer() {
  Lock lock(mutex_);
  const std::uint64_t before = shared_.exchanges;
  const bool always = !plan_.peers.empty() && plan_.every == 0;
  changed_.wait(lock, [&]() SOTTO_REQUIRES(mutex_) {
    const AveragerState& s = shared_;
    return s.error || s.exchanges > before || (!s.asked && (s.alone || (!s.due && !always)));
  });
  rethrow();
}

void Averager::rest(std::span<float> x) {
  Lock lock(mutex_);
  rethrow();
  Roll& roll = shared_.roll;
  const bool shown = shared_.state == State::resting;
  if (!shown) shared_.state = State::quiet;
  shared_.due = false;
  changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return shared_.error || !shared_.asked; });
  rethrow();
  if (!shown) shared_.state = State::meeting;
  roll.come_to_meeting();
  if (roll.somebody_ends() && roll.end() == 0) roll.end_behind(roll.steps() + 1);
  const Letters letters = announcement();
  lock.unlock();
  send(letters);
  lock.lock();
  wait_for_all(lock, Roll::Await::meeting);
  shared_.state = State::resting;
  if (!shown) std::ranges::copy(shared_.x, x.begin());
}

void Averager::abandon(std::span<float> x) {
  bool rests = false;
  {
    const Lock lock(mutex_);
    rests = shared_.state == State::resting || shared_.state == State::ended;
    shared_.state = State::ended;
  }
  if (mailbox_) {
    mailbox_->cancel();
    thread_.join();
    mailbox_.reset();
  }
  const Lock lock(mutex_);
  if (!rests) std::ranges::copy(shared_.x, x.begin());
}

void Averager::take_over(std::span<const FormerRank> each) {
  const Lock lock(mutex_);
  for (const FormerRank& former : each) {
    own_.model.visit_state(*former.state);
    Roll(former.rank, former.ranks).visit_state(*former.state);
    std::uint64_t requests = 0;
    former.state->visit("ad_psgd.requests", requests);
  }
}

void Averager::begin_at(std::uint64_t steps) {
  const Lock lock(mutex_);
  shared_.roll.begin_at(steps);
}

// Waits until all ranks have done `what`. Meanwhile the averaging thread watches the ranks that have not.
void Averager::wait_for_all(Lock& lock, Roll::Await what) {
  shared_.awaited = what;
  shared_.awaited_since = Clock::now();
  wake();
  changed_.wait(lock, [&]() SOTTO_REQUIRES(mutex_) {
    return shared_.error || (shared_.roll.all_have(what) && (what != Roll::Await::meeting || !shared_.answered));
  });
  shared_.awaited = Roll::Await::nothing;
  rethrow();
}

void Averager::rethrow() const {
  if (shared_.error) std::rethrow_exception(shared_.error);
}

void Averager::wake() {
  if (!mailbox_ || std::exchange(shared_.woken, true)) return;
  mailbox_->send(key_.rank, {});
}

void Averager::write_letter(PairNote::Kind kind, std::uint64_t number, std::vector<std::byte>& letter) const {
  PairNote note;
  note.kind = kind;
  note.generation = key_.generation;
  if (note.has_number()) note.number = static_cast<std::uint32_t>(number);
  shared_.roll.write_to(note, number);
  letter.resize(PairNote::bytes(ranks_));
  write_note(note, letter);
}

void Averager::tell(int peer, PairNote::Kind kind) {
  std::vector<std::byte> letter;
  {
    const Lock lock(mutex_);
    write_letter(kind, 0, letter);
  }
  const bool sent = mailbox_->send(peer, letter);
  const Lock lock(mutex_);
  shared_.notes += sent ? 1 : 0;
}

Averager::Letters Averager::letters_due() {
  Letters letters;
  if (!mailbox_) return letters;
  for (const RollTree::Letter& due : shared_.tree.due(shared_.roll)) {
    write_letter(due.kind, due.meeting, letters.emplace_back(due.peer, std::vector<std::byte>()).second);
  }
  return letters;
}

void Averager::send(const Letters& letters) {
  std::uint64_t sent = 0;
  for (const auto& [peer, letter] : letters) sent += mailbox_->send(peer, letter) ? 1 : 0;
  if (letters.empty()) return;
  const Lock lock(mutex_);
  shared_.notes += sent;
}

// If some rank has left, it may be one that would have passed this on, so all others are told directly.
Averager::Letters Averager::announcement() {
  Letters letters = letters_due();
  if (!shared_.roll.somebody_left()) return letters;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == key_.rank) continue;
    write_letter(PairNote::Kind::news, 0, letters.emplace_back(peer, std::vector<std::byte>()).second);
  }
  return letters;
}

void Averager::tell_all() {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != key_.rank) tell(peer, PairNote::Kind::news);
  }
}

std::vector<std::uint64_t> Averager::steps() const {
  const Lock lock(mutex_);
  return shared_.state == State::resting ? shared_.roll.steps_at_meeting() : shared_.roll.all_steps();
}

std::uint64_t Averager::known_steps() const {
  const Lock lock(mutex_);
  return shared_.roll.total_steps();
}

std::uint64_t Averager::exchanges() const {
  const Lock lock(mutex_);
  return shared_.exchanges;
}

std::uint64_t Averager::exchange_bytes() const {
  const Lock lock(mutex_);
  return shared_.exchange_bytes;
}

std::uint64_t Averager::notes_sent() const {
  const Lock lock(mutex_);
  return shared_.notes;
}

Traffic Averager::traffic() const { return mailbox_ ? mailbox_->traffic() : Traffic{}; }

void Averager::visit_state(StateVisitor& visitor) {
  const Lock lock(mutex_);
  own_.model.visit_state(visitor);
  shared_.roll.visit_state(visitor);
  visitor.visit("ad_psgd.requests", shared_.requests);
}

}  // namespace sotto
