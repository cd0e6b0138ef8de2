#include "adapters/mpi/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/comm/queued_mailbox.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

constexpr int lost_tag = 4;  // besides the kinds of frames: the sender's mailbox has ended without telling anybody
constexpr const char* given_up = "it gave up its mailbox without closing it";
constexpr std::chrono::milliseconds longest_pause(1);

class MpiMailbox final : public QueuedMailbox {
 public:
  MpiMailbox(std::shared_ptr<MpiSession> session, MPI_Comm group, std::size_t max_bytes, Deadline deadline)
      : QueuedMailbox(session->rank(), session->size(), max_bytes, std::move(deadline), false),
        session_(std::move(session)),
        group_(group),
        lines_(static_cast<std::size_t>(size())) {
    if (size() > 1) carrier_ = start_thread("a mailbox", [this] { carry(); });
  }

  ~MpiMailbox() override {
    inbox_.close();
    {
      const Lock lock(mutex_);
      ending_ = true;
      news_.notify_all();
    }
    if (carrier_.joinable()) carrier_.join();
    if (!in_peace_) tell_others();
    if (!leave_behind()) session_->release(group_);
  }

 private:
  struct Line {
    MPI_Request sending = MPI_REQUEST_NULL, receiving = MPI_REQUEST_NULL;
    Mail mail;          // the message that is being received
    bool over = false;  // nothing more comes
  };

  Line& line(int peer) { return lines_[static_cast<std::size_t>(peer)]; }

  void posted(int /*to*/) override SOTTO_REQUIRES(mutex_) {
    has_news_ = true;
    news_.notify_all();
  }

  void carry() {
    Patience patience(longest_pause);
    while (true) {
      if (!look(patience.is_long())) return fail_all();
      Lock lock(mutex_);
      if (ending_) return;
      const bool moved = std::exchange(moved_, false);
      if (moved) patience.progress();
      const auto moment = patience.moment();
      if (moved || moment == Clock::duration::zero()) {
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
      } else {
        news_.wait_until(lock, std::min(Clock::now() + moment, next_letter()),
                         [this]() SOTTO_REQUIRES(mutex_) { return has_news_ || ending_; });
      }
      if (std::exchange(has_news_, false)) patience.progress();
    }
  }

  // Returns false if this process must not call MPI again.
  bool look(bool for_failures) {
    const auto allowed = session_->enter();
    if (!allowed) return false;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      if (const int code = send(peer); code != MPI_SUCCESS) lose(peer, mpi_reason("MPI_Issend", code));
      if (const int code = receive(peer); code != MPI_SUCCESS) lose(peer, mpi_reason("MPI_Imrecv", code));
    }
    const int failed = for_failures ? session_->listen() : -1;
    if (failed >= 0) lose(failed, fmt::format("it gave up (because of {})", session_->said(failed)));
    return true;
  }

  int send(int to) {
    const Lock lock(mutex_);
    Line& out = line(to);
    if (out.sending != MPI_REQUEST_NULL) {
      int sent = 0;
      const int code = MPI_Test(&out.sending, &sent, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS || sent == 0) return code;
      pop(to);
      moved_ = true;
    }
    if (of(to).outgoing.empty() || of(to).broken) return MPI_SUCCESS;
    const Letter& letter = of(to).outgoing.front();
    if (letter.not_before > Clock::now()) return MPI_SUCCESS;
    const MpiExtent extent(letter.bytes.size());
    moved_ = true;
    const auto start = letter.kind == Frame::Kind::mail ? MPI_Issend : MPI_Isend;  // only mail needs room
    return start(letter.bytes.data(), extent.count(), extent.type(), to, static_cast<int>(letter.kind), group_,
                 &out.sending);
  }

  int receive(int from) {
    Line& in = line(from);
    if (in.receiving == MPI_REQUEST_NULL) {
      if (in.over || !inbox_.has_room(from)) return MPI_SUCCESS;
      if (const int code = begin(from); code != MPI_SUCCESS || in.receiving == MPI_REQUEST_NULL) return code;
    }
    int done = 0;
    const int code = MPI_Test(&in.receiving, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || done == 0) return code;
    const auto now = in.mail.arrived = Clock::now();
    inbox_.put(std::move(in.mail), now);
    moved_ = true;
    return code;
  }

  // Receives the first message from this peer, if there is one; mail is completed later.
  int begin(int from) {
    Line& in = line(from);
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int code = MPI_Improbe(from, MPI_ANY_TAG, group_, &there, &message, &status);
    if (code != MPI_SUCCESS || there == 0) return code;
    moved_ = true;
    MPI_Count length = 0;
    MPI_Get_elements_x(&status, MPI_BYTE, &length);
    const auto kind = static_cast<Frame::Kind>(status.MPI_TAG);
    if (kind != Frame::Kind::mail || length < 0 || std::cmp_greater(length, max_bytes())) {
      in.over = true;
      if (length == 0) code = MPI_Mrecv(nullptr, 0, MPI_BYTE, &message, MPI_STATUS_IGNORE);
      hear_word(from, status.MPI_TAG, length);
      return code;
    }
    in.mail = {from, inbox_.buffer(static_cast<std::size_t>(length))};
    const MpiExtent extent(in.mail.data.size());
    return MPI_Imrecv(in.mail.data.data(), extent.count(), extent.type(), &message, &in.receiving);
  }

  void hear_word(int from, int tag, MPI_Count length) {
    if (length == 0 && tag == lost_tag) return lose(from, given_up);
    const auto kind = static_cast<Frame::Kind>(tag);
    if (length == 0 && (kind == Frame::Kind::goodbye || kind == Frame::Kind::thanks)) {
      const Lock lock(mutex_);
      return heard(kind, from);
    }
    if (kind != Frame::Kind::mail) return lose(from, fmt::format("a message of kind {}, which there is not", tag));
    lose(from, fmt::format("a message of {} bytes came, and {} may come at most", length, max_bytes()));
  }

  // When the first postponed letter may be sent.
  Clock::time_point next_letter() SOTTO_REQUIRES(mutex_) {
    auto next = Clock::time_point::max();
    for (int peer = 0; peer < size(); ++peer) {
      const bool waits = line(peer).sending == MPI_REQUEST_NULL && !of(peer).outgoing.empty() && !of(peer).broken;
      if (waits) next = std::min(next, of(peer).outgoing.front().not_before);
    }
    return next;
  }

  void fail_all() {
    const std::string reason = "an operation failed before: " + session_->failure();
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) lose(peer, reason);
    }
  }

  void tell_others() {
    const auto allowed = session_->enter();
    for (int peer = 0; allowed && peer < size(); ++peer) {
      if (peer == rank() || inbox_.gone(peer)) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(nullptr, 0, MPI_BYTE, peer, lost_tag, group_, &request);
      session_->keep(request, {});
    }
  }

  // Leaves messages in transit behind with their memory. Returns whether there were any.
  bool leave_behind() {
    const Lock lock(mutex_);
    bool any = false;
    for (int peer = 0; peer < size(); ++peer) {
      Line& left = line(peer);
      if (left.sending != MPI_REQUEST_NULL) session_->keep(left.sending, std::move(of(peer).outgoing.front().bytes));
      if (left.receiving != MPI_REQUEST_NULL) session_->keep(left.receiving, std::move(left.mail.data));
      any = any || left.sending != MPI_REQUEST_NULL || left.receiving != MPI_REQUEST_NULL;
    }
    return any || !in_peace_;
  }

  std::shared_ptr<MpiSession> session_;
  MPI_Comm group_;
  Condition news_;  // for the thread that carries the messages
  bool has_news_ SOTTO_GUARDED_BY(mutex_) = false;
  std::vector<Line> lines_;  // this and the following belong to that thread
  bool moved_ = false;
  std::thread carrier_;
};

}  // namespace

std::unique_ptr<Mailbox> make_mpi_mailbox(std::shared_ptr<MpiSession> session, MPI_Comm group, std::size_t max_bytes,
                                          Deadline deadline) {
  return std::make_unique<MpiMailbox>(std::move(session), group, max_bytes, std::move(deadline));
}

}  // namespace sotto
