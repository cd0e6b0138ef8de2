#include "sotto/comm/inbox.h"

namespace sotto {

Inbox::Put Inbox::put(Mail mail, Clock::time_point until) {
  Lock lock(mutex_);
  Peer& sender = of(mail.sender);
  const auto room = [&]() SOTTO_REQUIRES(mutex_) { return closed_ || sender.waiting < Mailbox::depth; };
  if (!changed_.wait_until(lock, until, room)) return Put::full;
  if (closed_) return Put::closed;
  mail.arrived = sender.last = std::max(mail.arrived, sender.last);
  ++sender.waiting;
  const auto later = std::ranges::upper_bound(mail_, mail.arrived, {}, &Mail::arrived);
  mail_.insert(later, std::move(mail));
  changed_.notify_all();
  return Put::taken;
}

bool Inbox::has_room(int sender) const {
  const Lock lock(mutex_);
  return closed_ || of(sender).waiting < Mailbox::depth;
}

std::optional<Mail> Inbox::poll(Clock::time_point until, std::pair<int, std::string>& lost) {
  Lock lock(mutex_);
  while (!cancelled_ && !closed_) {
    const auto now = Clock::now();
    if (!mail_.empty() && mail_.front().arrived <= now) {
      std::optional<Mail> first(std::move(mail_.front()));
      mail_.pop_front();
      --of(first->sender).waiting;
      changed_.notify_all();
      return first;
    }
    if (mail_.empty() && first_lost_ >= 0) {
      lost = {first_lost_, *of(first_lost_).gone};
      return std::nullopt;
    }
    if (now >= until) return std::nullopt;
    changed_.wait_until(lock, mail_.empty() ? until : std::min(until, mail_.front().arrived));
  }
  return std::nullopt;
}

void Inbox::cancel() {
  const Lock lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

void Inbox::end(int peer, std::string reason) {
  const Lock lock(mutex_);
  if (of(peer).gone) return;
  if (first_lost_ < 0 && !reason.empty()) first_lost_ = peer;
  of(peer).gone = std::move(reason);
  changed_.notify_all();
}

bool Inbox::has_left(int peer) const {
  const Lock lock(mutex_);
  return of(peer).gone && of(peer).gone->empty() && of(peer).waiting == 0;
}

std::optional<std::string> Inbox::gone(int peer) const {
  const Lock lock(mutex_);
  return of(peer).gone;
}

void Inbox::close() {
  const Lock lock(mutex_);
  closed_ = true;
  mail_.clear();
  for (Peer& peer : peers_) peer.waiting = 0;
  changed_.notify_all();
}

std::vector<std::byte> Inbox::buffer(std::size_t bytes) {
  std::vector<std::byte> memory;
  {
    const Lock lock(mutex_);
    if (!spare_.empty()) {
      memory = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  memory.resize(bytes);
  return memory;
}

void Inbox::recycle(std::vector<std::byte> buffer) {
  const Lock lock(mutex_);
  if (spare_.size() < Mailbox::depth) spare_.push_back(std::move(buffer));
}

}  // namespace sotto
