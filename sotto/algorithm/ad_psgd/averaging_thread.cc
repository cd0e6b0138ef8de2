// The part of Averager that runs on the averaging thread.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sotto/algorithm/ad_psgd/averager.h"
#include "sotto/core/error.h"
#include "sotto/core/floats.h"

namespace sotto {
namespace {

constexpr std::uint64_t patience = 100;           // exchanges in which a late rank is not answered early
constexpr int questions = 8;                      // sent to a silent rank within the deadline
constexpr std::chrono::milliseconds glance{200};  // longest wait for mail, because no message says that a rank has left

}  // namespace

void Averager::run() {
  const PlainFloats floats;
  try {
    while (turn()) {
    }
  } catch (...) {
    const Lock lock(mutex_);
    shared_.error = std::current_exception();
    changed_.notify_all();
  }
}

// Waits until a message comes, or it is time to watch() the others. Returns false at the end.
bool Averager::turn() {
  ask();
  {
    const Lock lock(mutex_);
    if (shared_.state == State::ended || (shared_.state == State::ending && !shared_.asked)) return false;
  }
  std::erase_if(own_.held, [this](Mail& mail) {
    bool answered = false;
    naming(mail.sender, [&] { answered = answer_now(mail); });
    return answered;
  });
  inquire();
  const auto most = std::min(mailbox_->deadline() / (2 * questions), glance);
  auto taken = Clock::now() + most;  // all mail from before then was taken
  if (auto mail = mailbox_->poll(most)) {
    taken = mail->arrived;
    take(std::move(*mail));
  }
  // watch() looks at all ranks, so it is not called after each message: many arrive at once when many ranks rest.
  if (const auto now = Clock::now(); now - own_.watched >= most) {
    own_.watched = now;
    watch(taken);
  }
  return true;
}

void Averager::ask() {
  int peer = 0;
  std::vector<std::byte> request;
  {
    const Lock lock(mutex_);
    if (plan_.peers.empty() || shared_.asked || shared_.state != State::at_work) return;
    if (plan_.every > 0 && !shared_.due) return;
    shared_.due = false;
    peer = next_peer();
    if (peer < 0) {
      shared_.alone = true;
      changed_.notify_all();
      return;
    }
    const auto number = static_cast<std::uint32_t>(shared_.requests++);
    write_letter(PairNote::Kind::request, number, request);
    shared_.exchange_bytes += request.size();
    offer(number, own_.letter);
    shared_.asked = {peer, number, Clock::now()};
  }
  if (mailbox_->send(peer, request)) {
    mailbox_->send(peer, own_.letter);  // if the peer has left since, forget() closes the exchange after its last mail
    return;
  }
  const Lock lock(mutex_);
  shared_.asked.reset();
  changed_.notify_all();
}

// The next peer that has not left; -1 if all have.
int Averager::next_peer() {
  for (std::size_t i = 0; i < plan_.peers.size(); ++i, ++shared_.requests) {
    const int peer = plan_.peers[shared_.requests % plan_.peers.size()];
    if (!mailbox_->has_left(peer)) return peer;
  }
  return -1;
}

void Averager::offer(std::uint32_t number, std::vector<std::byte>& letter) {
  const Timer timer;
  Key key = key_;
  key.step = static_cast<std::uint32_t>(shared_.roll.steps());
  write_letter(PairNote::Kind::model, number, letter);
  own_.model.offer(shared_.x, key, letter);
  shared_.exchange_bytes += letter.size();
  shared_.timings.encode += timer.seconds();
}

void Averager::move(std::span<const std::byte> letter) {
  const Timer timer;
  own_.model.move(shared_.x, letter.subspan(PairNote::bytes(ranks_)));
  ++shared_.exchanges;
  shared_.timings.decode += timer.seconds();
  changed_.notify_all();
}

void Averager::take(Mail mail) {
  const int sender = mail.sender;
  if (sender == key_.rank) {
    const Lock lock(mutex_);
    shared_.woken = false;
    return;
  }
  naming(sender, [&] {
    const auto model = read_note(mail.data, ranks_, own_.note);
    if (own_.note.generation != key_.generation) throw WireError("it is of another group of ranks");
    hear(sender, own_.note);
    if (own_.note.kind == PairNote::Kind::question) tell(sender, PairNote::Kind::news);
    if (own_.note.kind == PairNote::Kind::request) take_request(sender);
    if (own_.note.kind == PairNote::Kind::model) take_model(mail, model);
  });
  if (!mail.data.empty()) mailbox_->recycle(std::move(mail));
}

// Takes over what the note says about ranks.
void Averager::hear(int sender, const PairNote& note) {
  Letters letters;
  {
    const Lock lock(mutex_);
    Roll& roll = shared_.roll;
    roll.hear(sender, note, Clock::now());
    // A rank that takes no step now can end after its next one.
    const bool rests = shared_.state == State::resting || shared_.state == State::meeting;
    if (rests && roll.somebody_ends() && roll.end() == 0) roll.end_behind(roll.steps() + 1);
    letters = letters_due();
    changed_.notify_all();
  }
  send(letters);
}

// Calls `f`, and adds the sender's name to a WireError.
void Averager::naming(int sender, const std::function<void()>& f) const {
  try {
    f();
  } catch (const WireError& error) {
    throw WireError(fmt::format("rank {}: message of rank {}: {}", key_.rank, sender, error.what()));
  }
}

// Answers before the sender's model has come, but only one rank at a time: each such answer promises half of this
// rank's model. If two other exchanges change the model before the sender's model comes, the sender's link is slow, and
// it is not answered early for a while.
void Averager::take_request(int sender) {
  if (!plan_.peers.empty()) throw WireError("it asks for a model, and this rank is one of those that ask");
  {
    const Lock lock(mutex_);
    if (shared_.answered || !may_answer(own_.note)) return;
    if (shared_.exchanges < own_.late[static_cast<std::size_t>(sender)]) return;
    own_.meanwhile = 0;
    offer(own_.note.number, own_.early_letter);
    shared_.answered = {sender, own_.note.number, Clock::now()};
  }
  mailbox_->send(sender, own_.early_letter);
}

void Averager::take_model(Mail& mail, std::span<const std::byte> model) {
  const int sender = mail.sender;
  {
    const Lock lock(mutex_);
    for (auto* const exchange : {&shared_.asked, &shared_.answered}) {
      if (!*exchange || (*exchange)->peer != sender || (*exchange)->number != own_.note.number) continue;
      open(sender, own_.note, model);
      const bool asked = exchange == &shared_.asked;
      if (asked) shared_.timings.network += std::chrono::duration<double>(Clock::now() - (*exchange)->since).count();
      move(asked ? own_.letter : own_.early_letter);
      if (!asked && own_.meanwhile > 1) own_.late[static_cast<std::size_t>(sender)] = shared_.exchanges + patience;
      exchange->reset();
      return;
    }
  }
  if (!plan_.peers.empty()) {
    throw WireError(fmt::format("it answers request {}, which this rank does not wait for", own_.note.number));
  }
  if (std::ranges::find(own_.held, sender, &Mail::sender) != own_.held.end()) {
    throw WireError("it asks again before it was answered");
  }
  if (!answer_now(mail)) own_.held.push_back(std::move(mail));
}

// A rank that asks has left the last meeting that it came to, so all ranks have come to that meeting.
bool Averager::may_answer(const PairNote& note) const {
  const bool complete = shared_.state == State::meeting && note.meeting == shared_.roll.meeting();
  return !complete && !shared_.frozen();
}

// Answers a model, unless this rank's model may not change now. Returns whether it answered.
bool Averager::answer_now(Mail& mail) {
  const auto model = read_note(mail.data, ranks_, own_.note);
  {
    const Lock lock(mutex_);
    if (!may_answer(own_.note)) return false;
  }
  open(mail.sender, own_.note, model);
  {
    const Lock lock(mutex_);
    offer(own_.note.number, own_.letter);
    move(own_.letter);
    ++own_.meanwhile;
  }
  mailbox_->send(mail.sender, own_.letter);
  mailbox_->recycle(std::move(mail));
  return true;
}

void Averager::open(int sender, const PairNote& note, std::span<const std::byte> model) {
  own_.model.open(model, {.generation = key_.generation,
                          .origin = static_cast<std::uint16_t>(sender),
                          .step = static_cast<std::uint32_t>(note.steps[static_cast<std::size_t>(sender)])});
}

// Counts of steps come with every message. Once per step, this asks the rank that was silent for longest for news, if
// it has said nothing since the last time. That rank's averaging thread answers, so nobody waits for a slow rank, and a
// silent rank has one open question at most.
void Averager::inquire() {
  int silent = -1;
  {
    const Lock lock(mutex_);
    if (!std::exchange(shared_.counts, false)) return;
    for (int peer = 0; peer < ranks_; ++peer) {
      const auto heard = shared_.roll.heard(peer);
      if (peer == key_.rank || heard > own_.inquired || own_.questioned[static_cast<std::size_t>(peer)] > heard)
        continue;
      if (!mailbox_->has_left(peer) && (silent < 0 || heard < shared_.roll.heard(silent))) silent = peer;
    }
  }
  own_.inquired = Clock::now();
  if (silent < 0) return;
  own_.questioned[static_cast<std::size_t>(silent)] = own_.inquired;
  tell(silent, PairNote::Kind::question);
}

// From time to time asks the ranks that this one waits for to send news. Such a rank is lost if all mail of a whole
// deadline was taken and none came from that rank; at a meeting also if the mail of two deadlines showed no progress. A
// rank that answers but makes no progress may itself wait for a lost rank, and gets the time to name it. Only mail that
// was taken counts, because this thread may have caused the silence itself: it was busy, or stopped for a while.
void Averager::watch(Clock::time_point taken) {
  bool fewer = false;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == key_.rank) continue;
    if (mailbox_->has_left(peer)) {
      fewer = forget(peer) || fewer;
    } else if (must_be_questioned(peer, taken)) {
      tell(peer, PairNote::Kind::question);
    }
  }
  // A rank that left can pass nothing on (RollTree), so this rank tells all others itself. A rank that does not wait
  // yet does so when it begins to wait.
  if (fewer && waits()) tell_all();
}

bool Averager::waits() const {
  const Lock lock(mutex_);
  return shared_.awaited != Roll::Await::nothing;
}

// This peer has left. Returns whether that is new.
bool Averager::forget(int peer) {
  const Lock lock(mutex_);
  for (auto* const exchange : {&shared_.asked, &shared_.answered}) {
    if (*exchange && (*exchange)->peer == peer) exchange->reset();
  }
  changed_.notify_all();
  return shared_.roll.leave(peer);
}

bool Averager::must_be_questioned(int peer, Clock::time_point taken) {
  const Lock lock(mutex_);
  Roll& roll = shared_.roll;
  const bool asked = shared_.asked && shared_.asked->peer == peer;
  const bool meets = shared_.awaited == Roll::Await::meeting && shared_.answered && shared_.answered->peer == peer;
  if (!asked && !meets && !roll.lacks(peer, shared_.awaited)) return false;
  const auto since = asked ? shared_.asked->since : shared_.awaited_since;
  const auto heard = std::max(since, roll.heard(peer));
  const auto deadline = mailbox_->deadline();
  const bool stands = !asked && taken - std::max(since, roll.moved(peer)) > 2 * deadline;
  if (stands || taken - heard > deadline) {
    throw CommError(fmt::format("rank {}: rank {} {} for {:g} s; it has made {} steps, this rank {}", key_.rank, peer,
                                asked    ? "was asked for its model and said nothing"
                                : meets  ? "has not sent the model that it announced"
                                : stands ? "made no step that is waited for"
                                         : "is waited for and said nothing",
                                std::chrono::duration<double>(stands ? 2 * deadline : deadline).count(),
                                roll.steps_of(peer), roll.steps()));
  }
  const auto now = Clock::now();
  auto& questioned = own_.questioned[static_cast<std::size_t>(peer)];
  if (questioned > roll.heard(peer)) return false;  // it has not answered the last question
  if (now - std::max(heard, questioned) <= deadline / questions) return false;
  questioned = now;
  return true;
}

}  // namespace sotto
