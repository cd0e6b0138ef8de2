#include "adapters/c10d/gloo_mailbox.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "adapters/c10d/c10d_reason.h"
#include "sotto/comm/frame.h"
#include "sotto/comm/queued_mailbox.h"
#include "sotto/core/error.h"
#include "sotto/core/mutex.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

constexpr std::size_t with_frame = 4096;          // bytes of a message that travel with its frame
constexpr std::chrono::hours for_ever(24 * 365);  // finite, as Gloo adds it to the time of day

class GlooMailbox final : public QueuedMailbox {
 public:
  GlooMailbox(c10::intrusive_ptr<c10d::Backend> group, std::shared_ptr<Meeting> meeting, std::size_t max_bytes,
              Deadline deadline)
      : QueuedMailbox(group->getRank(), group->getSize(), max_bytes, std::move(deadline), true),
        group_(std::move(group)),
        meeting_(std::move(meeting)),
        lines_(static_cast<std::size_t>(size())) {
    try {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        threads_.push_back(start_thread("a mailbox", [this, peer] { send_all(peer); }));
        threads_.push_back(start_thread("a mailbox", [this, peer] { receive_all(peer); }));
      }
    } catch (const Error&) {
      end();
      throw;
    }
  }

  ~GlooMailbox() override { end(); }

 private:
  struct Line {
    c10::intrusive_ptr<c10d::Work> sending, receiving;  // the messages that its threads wait for
  };

  void end() {
    inbox_.close();
    {
      const Lock lock(mutex_);
      ending_ = true;
      for (int peer = 0; peer < size(); ++peer) {
        if (line(peer).sending) line(peer).sending->abort();
        if (line(peer).receiving) line(peer).receiving->abort();
        of(peer).changed.notify_all();
      }
    }
    for (std::thread& thread : threads_) thread.join();
  }

  Line& line(int peer) SOTTO_REQUIRES(mutex_) { return lines_[static_cast<std::size_t>(peer)]; }

  void send_all(int to) {
    Lock lock(mutex_);
    Peer& peer = of(to);
    while (true) {
      peer.changed.wait(lock, [&]() SOTTO_REQUIRES(mutex_) { return ending_ || !peer.outgoing.empty(); });
      if (ending_) return;
      Letter& letter = peer.outgoing.front();
      if (peer.changed.wait_until(lock, letter.not_before, [this]() SOTTO_REQUIRES(mutex_) { return ending_; })) return;
      lock.unlock();
      const std::span<const std::byte> bytes(letter.bytes);
      const std::size_t first = std::min(bytes.size(), Frame::bytes + with_frame);
      const bool sent = transfer(to, &Line::sending, bytes.first(first)) &&
                        (first == bytes.size() || transfer(to, &Line::sending, bytes.subspan(first)));
      lock.lock();
      if (!sent) return;
      pop(to);
    }
  }

  void receive_all(int from) {
    std::vector<std::byte> begin(Frame::bytes + with_frame);
    while (transfer(from, &Line::receiving, begin)) {
      try {
        const Frame frame = read_frame(begin, max_bytes());
        if (frame.kind != Frame::Kind::mail) {
          const Lock lock(mutex_);
          return heard(frame.kind, from);
        }
        Mail mail{from, inbox_.buffer(frame.length)};
        const std::size_t first = std::min(frame.length, with_frame);
        std::copy_n(begin.begin() + Frame::bytes, first, mail.data.begin());
        const auto rest = std::span(mail.data).subspan(first);
        if (!rest.empty() && !transfer(from, &Line::receiving, rest)) return;
        mail.arrived = Clock::now();
        inbox_.put(std::move(mail), Clock::now() + for_ever);
      } catch (const Error& error) {
        return lose(from, plain_reason(error.what(), deadline()));
      }
    }
  }

  // Sends or receives these bytes. Returns false if that failed, or the mailbox is ending.
  bool transfer(int peer, c10::intrusive_ptr<c10d::Work> Line::*current, std::span<const std::byte> bytes) {
    try {
      // Gloo takes tensors; this one refers to our memory.
      std::vector<at::Tensor> tensor{
          at::from_blob(const_cast<std::byte*>(bytes.data()), {static_cast<std::int64_t>(bytes.size())}, at::kByte)};
      c10::intrusive_ptr<c10d::Work> work;
      {
        const Lock lock(mutex_);
        if (ending_) return false;
        work = current == &Line::sending ? group_->send(tensor, peer, 0) : group_->recv(tensor, peer, 0);
        line(peer).*current = work;
      }
      const bool done = work->wait(for_ever);
      const Lock lock(mutex_);
      (line(peer).*current).reset();
      return done;
    } catch (const std::exception& error) {
      lose(peer, plain_reason(error.what(), deadline()));
      const Lock lock(mutex_);
      (line(peer).*current).reset();
      return false;
    }
  }

  // A peer may have ended because of another one; the first thread that asks finds the cause.
  [[noreturn]] void fail_because(int peer, const std::string& reason) override {
    const Lock lock(asking_);
    if (!cause_) cause_ = meeting_->report(peer, failure(peer, reason));
    throw CommError(failure(peer, reason_with(reason, *cause_)));
  }

  c10::intrusive_ptr<c10d::Backend> group_;
  std::shared_ptr<Meeting> meeting_;
  Mutex asking_;
  std::optional<std::string> cause_ SOTTO_GUARDED_BY(asking_);
  std::vector<Line> lines_ SOTTO_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Mailbox> make_gloo_mailbox(c10::intrusive_ptr<c10d::Backend> group, std::shared_ptr<Meeting> meeting,
                                           std::size_t max_bytes, Deadline deadline) {
  return std::make_unique<GlooMailbox>(std::move(group), std::move(meeting), max_bytes, std::move(deadline));
}

}  // namespace sotto
