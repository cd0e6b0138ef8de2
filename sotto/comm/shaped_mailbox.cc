#include "sotto/comm/shaped_mailbox.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "sotto/core/mutex.h"

namespace sotto {
namespace {

class ShapedMailbox final : public Mailbox {
 public:
  ShapedMailbox(std::unique_ptr<Mailbox> inner, std::shared_ptr<Link> link)
      : Mailbox(inner->rank(), inner->size(), inner->max_bytes(), inner->deadline()),
        inner_(std::move(inner)),
        link_(std::move(link)) {}

  std::size_t header_bytes() const override { return inner_->header_bytes(); }
  void recycle(Mail mail) override { inner_->recycle(std::move(mail)); }
  void close() override { inner_->close(); }

  void cancel() override {
    inner_->cancel();
    const Lock lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

  bool has_left(int peer) const override {
    if (!inner_->has_left(peer)) return false;
    const Lock lock(mutex_);
    return std::ranges::find(coming_in_, peer, &Mail::sender) == coming_in_.end();
  }

 private:
  // Messages to one rank leave in the order of their times.
  bool do_send(int to, std::span<const std::byte> data, Clock::time_point not_before) override {
    if (to == rank()) return inner_->send(to, data, not_before);
    const Lock lock(sending_[static_cast<std::size_t>(to)]);
    const auto begin = std::max(Clock::now(), not_before);
    return inner_->send(to, data, link_->send(to, header_bytes() + data.size(), begin));
  }

  // A message of the inner mailbox has arrived at this rank's link, and waits for earlier ones there.
  std::optional<Mail> do_poll(Clock::time_point until) override {
    Lock lock(mutex_);
    while (!cancelled_) {
      const auto now = Clock::now();
      if (!coming_in_.empty() && coming_in_.front().arrived <= now) {
        std::optional<Mail> mail(std::move(coming_in_.front()));
        coming_in_.pop_front();
        return mail;
      }
      if (!coming_in_.empty()) {
        if (now >= until) return std::nullopt;
        changed_.wait_until(lock, std::min(until, coming_in_.front().arrived));
        continue;
      }
      lock.unlock();
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
      auto mail = inner_->poll(std::max(left, std::chrono::milliseconds(0)));
      lock.lock();
      if (!mail) return std::nullopt;
      if (mail->sender != rank())
        mail->arrived = link_->receive(mail->sender, header_bytes() + mail->data.size(), mail->arrived);
      coming_in_.push_back(std::move(*mail));
    }
    return std::nullopt;
  }

  std::unique_ptr<Mailbox> inner_;
  std::shared_ptr<Link> link_;
  std::deque<Mutex> sending_{static_cast<std::size_t>(size())};  // for each rank
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<Mail> coming_in_ SOTTO_GUARDED_BY(mutex_);
  bool cancelled_ SOTTO_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<Mailbox> make_shaped_mailbox(std::unique_ptr<Mailbox> inner, std::shared_ptr<Link> link) {
  return std::make_unique<ShapedMailbox>(std::move(inner), std::move(link));
}

}  // namespace sotto
