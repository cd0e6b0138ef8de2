#pragma once

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "sotto/comm/inbox.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/error.h"

namespace sotto {

// The mailboxes of all ranks, which are threads of this process.
class PostOffice {
 public:
  explicit PostOffice(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) inboxes_.emplace_back(ranks);
  }
  Inbox& of(int rank) { return inboxes_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(inboxes_.size()); }

  // That rank has closed its mailbox. The others are told first, so that a rank that cannot send any more finds out
  // why.
  void close(int rank) {
    for (Inbox& inbox : inboxes_) inbox.leave(rank);
    of(rank).close();
  }
  // The rank is lost for that reason, unless it has closed its mailbox before.
  void end(int rank, const std::string& reason) {
    for (Inbox& inbox : inboxes_) inbox.lose(rank, reason);
    of(rank).close();
  }

 private:
  std::deque<Inbox> inboxes_;
};

// Puts a message directly into the inbox of its receiver.
class ThreadMailbox final : public Mailbox {
 public:
  ThreadMailbox(std::shared_ptr<PostOffice> office, int rank, std::size_t max_bytes, Deadline deadline)
      : Mailbox(rank, office->size(), max_bytes, std::move(deadline)), office_(std::move(office)) {}

  // If an exception ends the rank, whoever catches it reports the reason.
  ~ThreadMailbox() override {
    if (std::uncaught_exceptions() == exceptions_) office_->end(rank(), "it gave up its mailbox without closing it");
  }

  void recycle(Mail mail) override { mine().recycle(std::move(mail.data)); }
  void cancel() override { mine().cancel(); }
  void close() override { office_->close(rank()); }
  bool has_left(int peer) const override { return office_->of(rank()).has_left(peer); }

 private:
  bool do_send(int to, std::span<const std::byte> data, Clock::time_point not_before) override {
    if (is_gone(to)) return false;
    Inbox& theirs = office_->of(to);
    Mail mail{rank(), theirs.buffer(data.size()), std::max(Clock::now(), not_before)};
    std::ranges::copy(data, mail.data.begin());
    const auto put = theirs.put(std::move(mail), Clock::now() + deadline());
    if (put == Inbox::Put::full) throw CommError(failure(to, not_polled()));
    return put == Inbox::Put::taken || !is_gone(to);  // a rank tells everybody before it closes its inbox
  }

  bool is_gone(int peer) {
    const auto why = mine().gone(peer);
    if (why && !why->empty()) throw CommError(failure(peer, *why));
    return why.has_value();
  }

  std::optional<Mail> do_poll(Clock::time_point until) override {
    std::pair<int, std::string> lost;
    auto mail = mine().poll(until, lost);
    if (!mail && !lost.second.empty()) throw CommError(failure(lost.first, lost.second));
    return mail;
  }

  Inbox& mine() { return office_->of(rank()); }

  std::shared_ptr<PostOffice> office_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace sotto
