#include "sotto/comm/emulated/shaped.h"

#include <deque>
#include <numeric>

#include "sotto/comm/mailbox.h"

namespace sotto {
namespace {

// Delays the messages of another mailbox as the link would; a communicator may share the link.
class ShapedMailbox final : public Mailbox {
 public:
  ShapedMailbox(std::unique_ptr<Mailbox> inner, std::shared_ptr<Link> link)
      : Mailbox(inner->rank(), inner->size(), inner->max_bytes(), inner->deadlines()),
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

class ShapedCommunicator final : public Communicator {
 public:
  ShapedCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Link> link)
      : Communicator(inner->rank(), inner->size(), inner->deadlines()),
        inner_(std::move(inner)),
        link_(std::move(link)) {}

  std::string_view name() const override { return "shaped"; }
  bool goes_in_rounds() const override { return inner_->goes_in_rounds(); }
  void give_up(const std::string& reason) override { inner_->give_up(reason); }

 private:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    const auto begin = Clock::now();
    delayed_.assign(sends.begin(), sends.end());
    for (Send& send : delayed_) {
      send.not_before = link_->send(send.peer, send.data.size(), std::max(begin, send.not_before));
    }
    inner_->at_step(step());
    inner_->exchange(delayed_, recvs);

    order_.resize(recvs.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::sort(order_, {}, [&](std::size_t i) { return std::pair(recvs[i].arrived, i); });
    for (const std::size_t i : order_) {
      recvs[i].arrived = link_->receive(recvs[i].peer, recvs[i].received(), recvs[i].arrived);
      if (recvs[i].arrived > begin + deadline()) {
        fail(operation(), recvs[i].peer, "the emulated link is too slow for the deadline");
      }
    }
    if (!recvs.empty()) std::this_thread::sleep_until(std::ranges::max(recvs, {}, &Recv::arrived).arrived);
  }

  std::unique_ptr<Communicator> do_clone() override {
    return std::make_unique<ShapedCommunicator>(inner_->clone(), link_);
  }

  std::unique_ptr<Mailbox> do_open_mailbox(std::size_t max_bytes) override {
    return std::make_unique<ShapedMailbox>(inner_->open_mailbox(max_bytes), link_);
  }

  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<Link> link_;
  // Kept from call to call, so that a step allocates nothing.
  std::vector<Send> delayed_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::unique_ptr<Communicator> make_shaped(std::unique_ptr<Communicator> inner, const Links& links) {
  auto link = std::make_shared<Link>(links, inner->rank(), inner->size());
  return std::make_unique<ShapedCommunicator>(std::move(inner), std::move(link));
}

}  // namespace sotto
