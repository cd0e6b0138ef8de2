#include "sotto/comm/gloo_mailbox.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/comm/c10d_reason.h"
#include "sotto/comm/frame.h"
#include "sotto/comm/inbox.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::size_t with_frame = 4096;          // bytes of a message
constexpr std::chrono::hours for_ever(24 * 365);  // Gloo adds it to the time of day

class GlooMailbox final : public Mailbox {
 public:
  GlooMailbox(c10::intrusive_ptr<c10d::Backend> group, std::shared_ptr<Meeting> meeting, std::size_t max_bytes,
              std::chrono::milliseconds deadline)
      : Mailbox(group->getRank(), group->getSize(), max_bytes, deadline),
        group_(std::move(group)),
        meeting_(std::move(meeting)),
        inbox_(size()),
        peers_(static_cast<std::size_t>(size())) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      of(peer).sender = std::thread([this, peer] { send_all(peer); });
      of(peer).receiver = std::thread([this, peer] { receive_all(peer); });
    }
  }

  ~GlooMailbox() override {
    inbox_.close();
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      for (Peer& peer : peers_) {
        if (peer.sending) peer.sending->abort();
        if (peer.receiving) peer.receiving->abort();
        peer.changed.notify_all();
      }
    }
    for (Peer& peer : peers_) {
      if (peer.sender.joinable()) peer.sender.join();
      if (peer.receiver.joinable()) peer.receiver.join();
    }
  }

  std::size_t header_bytes() const override { return Frame::bytes; }
  void recycle(Mail mail) override { inbox_.recycle(std::move(mail.data)); }
  void cancel() override { inbox_.cancel(); }
  bool has_left(int peer) const override { return inbox_.has_left(peer); }

  // A goodbye to each, which it thanks for, or says the same at the same time: then it has read all that was sent
  // before. Who has left, or is lost, hears nothing any more.
  void close() override {
    const auto until = Clock::now() + deadline();
    inbox_.close();
    std::unique_lock lock(mutex_);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank() || inbox_.gone(peer)) continue;
      of(peer).said_goodbye = true;
      post(peer, {Frame::Kind::goodbye, 0}, {}, {});
    }
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const auto told = [&] {
        const bool heard = of(peer).thanked || inbox_.gone(peer);
        return heard && (of(peer).outgoing.empty() || of(peer).broken);
      };
      if (!of(peer).changed.wait_until(lock, until, told)) throw CommError(failure(peer, not_polled()));
    }
  }

 private:
  struct Letter {
    Frame::Kind kind;
    std::vector<std::byte> bytes;  // with its frame
    Clock::time_point not_before;
  };
  struct Peer {
    std::condition_variable changed;
    std::deque<Letter> outgoing;  // the first one is being sent
    std::vector<std::vector<std::byte>> spare;
    bool said_goodbye = false;
    bool thanked = false;
    bool broken = false;                                // nothing can be sent any more
    c10::intrusive_ptr<c10d::Work> sending, receiving;  // what its threads wait for
    std::thread sender, receiver;
  };

  Peer& of(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  bool do_send(int to, std::span<const std::byte> data, Clock::time_point not_before) override {
    const auto until = Clock::now() + deadline();
    if (to == rank()) return send_to_self(data, not_before, until);
    std::unique_lock lock(mutex_);
    const auto room = [&] { return inbox_.gone(to) || of(to).outgoing.size() < depth; };
    if (!of(to).changed.wait_until(lock, until, room)) throw CommError(failure(to, not_polled()));
    if (const auto why = inbox_.gone(to)) {
      lock.unlock();
      if (!why->empty()) fail_because(to, *why);
      return false;
    }
    post(to, {Frame::Kind::mail, data.size()}, data, not_before);
    return true;
  }

  bool send_to_self(std::span<const std::byte> data, Clock::time_point not_before, Clock::time_point until) {
    Mail mail{rank(), inbox_.buffer(data.size()), std::max(Clock::now(), not_before)};
    std::ranges::copy(data, mail.data.begin());
    const auto put = inbox_.put(std::move(mail), until);
    if (put == Inbox::Put::full) throw CommError(failure(rank(), not_polled()));
    return put == Inbox::Put::taken;
  }

  std::optional<Mail> do_poll(Clock::time_point until) override {
    std::pair<int, std::string> lost;
    auto mail = inbox_.poll(until, lost);
    if (!mail && !lost.second.empty()) fail_because(lost.first, lost.second);
    return mail;
  }

  // REQUIRES the lock, as does what follows up to send_all().
  void post(int to, const Frame& frame, std::span<const std::byte> data, Clock::time_point not_before) {
    Peer& peer = of(to);
    std::vector<std::byte> bytes;
    if (!peer.spare.empty()) {
      bytes = std::move(peer.spare.back());
      peer.spare.pop_back();
    }
    bytes.resize(Frame::bytes + data.size());
    write_frame(frame, bytes);
    std::ranges::copy(data, bytes.begin() + Frame::bytes);
    peer.outgoing.push_back({frame.kind, std::move(bytes), not_before});
    peer.changed.notify_all();
  }

  // The peer reads nothing any more but an answer, and no second one.
  void answer_goodbye(int from) {
    Peer& peer = of(from);
    inbox_.leave(from);
    if (peer.outgoing.size() > 1) peer.outgoing.erase(peer.outgoing.begin() + 1, peer.outgoing.end());
    const bool mail_before = !peer.outgoing.empty() && peer.outgoing.front().kind == Frame::Kind::mail;
    if (!peer.said_goodbye || mail_before) post(from, {Frame::Kind::thanks, 0}, {}, {});
    peer.changed.notify_all();
  }

  // The peer is lost, unless it has left.
  void lose(int from, std::string_view what) {
    const std::lock_guard lock(mutex_);
    if (!ending_) inbox_.lose(from, plain_reason(what, deadline()));
    of(from).broken = true;
    of(from).changed.notify_all();
  }

  void send_all(int to) {
    Peer& peer = of(to);
    std::unique_lock lock(mutex_);
    while (true) {
      peer.changed.wait(lock, [&] { return ending_ || !peer.outgoing.empty(); });
      if (ending_) return;
      Letter& letter = peer.outgoing.front();
      if (peer.changed.wait_until(lock, letter.not_before, [this] { return ending_; })) return;
      lock.unlock();
      const std::span<const std::byte> bytes(letter.bytes);
      const std::size_t first = std::min(bytes.size(), Frame::bytes + with_frame);
      const bool sent = transfer(to, &Peer::sending, bytes.first(first)) &&
                        (first == bytes.size() || transfer(to, &Peer::sending, bytes.subspan(first)));
      lock.lock();
      if (!sent) return;
      if (peer.spare.size() < depth) peer.spare.push_back(std::move(letter.bytes));
      peer.outgoing.pop_front();
      peer.changed.notify_all();
    }
  }

  void receive_all(int from) {
    std::vector<std::byte> begin(Frame::bytes + with_frame);
    while (transfer(from, &Peer::receiving, begin)) {
      try {
        const Frame frame = read_frame(begin, max_bytes());
        if (frame.kind == Frame::Kind::mail) {
          Mail mail{from, inbox_.buffer(frame.length)};
          const std::size_t first = std::min(frame.length, with_frame);
          std::copy_n(begin.begin() + Frame::bytes, first, mail.data.begin());
          const auto rest = std::span(mail.data).subspan(first);
          if (!rest.empty() && !transfer(from, &Peer::receiving, rest)) return;
          mail.arrived = Clock::now();
          inbox_.put(std::move(mail), Clock::now() + for_ever);
          continue;
        }
        const std::lock_guard lock(mutex_);
        if (frame.kind == Frame::Kind::goodbye) return answer_goodbye(from);
        of(from).thanked = true;
        of(from).changed.notify_all();
      } catch (const Error& error) {
        return lose(from, error.what());
      }
    }
  }

  // Sends or fills these bytes. False when that failed, or the mailbox ends.
  bool transfer(int peer, c10::intrusive_ptr<c10d::Work> Peer::*current, std::span<const std::byte> bytes) {
    try {
      // Gloo takes tensors; this one points at our memory.
      std::vector<at::Tensor> tensor{
          at::from_blob(const_cast<std::byte*>(bytes.data()), {static_cast<std::int64_t>(bytes.size())}, at::kByte)};
      c10::intrusive_ptr<c10d::Work> work;
      {
        const std::lock_guard lock(mutex_);
        if (ending_) return false;
        work = current == &Peer::sending ? group_->send(tensor, peer, 0) : group_->recv(tensor, peer, 0);
        of(peer).*current = work;
      }
      const bool done = work->wait(for_ever);
      const std::lock_guard lock(mutex_);
      (of(peer).*current).reset();
      return done;
    } catch (const std::exception& error) {
      lose(peer, error.what());
      const std::lock_guard lock(mutex_);
      (of(peer).*current).reset();
      return false;
    }
  }

  // A peer may have ended because of another one; the first to ask finds out.
  [[noreturn]] void fail_because(int peer, const std::string& reason) {
    const std::lock_guard lock(asking_);
    const std::string error = failure(peer, reason);
    if (!cause_) cause_ = meeting_->report(peer, error);
    throw CommError(cause_->empty() ? error : fmt::format("{} (because of {})", error, *cause_));
  }

  c10::intrusive_ptr<c10d::Backend> group_;
  std::shared_ptr<Meeting> meeting_;
  Inbox inbox_;
  std::mutex mutex_;
  bool ending_ = false;
  std::mutex asking_;
  std::optional<std::string> cause_;
  std::deque<Peer> peers_;
};

}  // namespace

std::unique_ptr<Mailbox> make_gloo_mailbox(c10::intrusive_ptr<c10d::Backend> group, std::shared_ptr<Meeting> meeting,
                                           std::size_t max_bytes, std::chrono::milliseconds deadline) {
  return std::make_unique<GlooMailbox>(std::move(group), std::move(meeting), max_bytes, deadline);
}

}  // namespace sotto
