// The c10d backend: batches of point-to-point messages over LibTorch's ProcessGroupGloo, or over a backend of another
// kind that somebody else made. Collectives are those of Communicator, not Gloo's: they have the same bits with every
// backend, their bytes are counted exactly, and errors name the peer. They are also faster than Gloo's (except an
// all-reduce of tens of megabytes at memory speed, which is 1.3 times slower).
#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <iterator>

#include "adapters/c10d/c10d.h"
#include "adapters/c10d/c10d_memory.h"
#include "adapters/c10d/compute_threads.h"
#include "adapters/c10d/store.h"
#include "sotto/comm/comm_thread.h"

namespace sotto {
namespace {

// On a group of somebody else, this tag ("so") distinguishes our messages from theirs. Messages of ranks with different
// marks must not meet, since their sizes may differ; the mark is therefore part of the tag. MPI needs tags below 2^15;
// there one pair of marks in 3000 has equal tags, and only the marks themselves tell them apart.
constexpr int plain_tag = 0x736F;
constexpr int mark_tag = plain_tag + 1;
int tag_of(std::uint64_t mark, bool mpi) { return mark_tag + 1 + static_cast<int>(mark % (mpi ? 3000 : 1U << 30U)); }

class C10dCommunicator final : public Communicator {
 public:
  // Uses connections of its own.
  C10dCommunicator(std::shared_ptr<Meeting> meeting, GlooSettings settings, std::string group, int rank, int size,
                   Deadline deadline, const Stop& stop = {})
      : Communicator(rank, size, std::move(deadline)),
        meeting_(std::move(meeting)),
        settings_(std::move(settings)),
        group_name_(std::move(group)),
        name_(c10d::GLOO_BACKEND_NAME),
        peers_(static_cast<std::size_t>(size)) {
    group_ = open(group_name_, stop);
  }

  // Uses somebody else's group, whose owner closes it.
  C10dCommunicator(GroupPtr group, std::chrono::milliseconds deadline)
      : Communicator(group->getRank(), group->getSize(), deadline),
        name_(group->getBackendName()),
        group_(std::move(group)),
        memory_(name_ != c10d::GLOO_BACKEND_NAME),
        peers_(static_cast<std::size_t>(size())) {}

  std::string_view name() const override { return name_; }

  void require_same(std::uint64_t mark, std::string_view otherwise) override {
    mark_ = mark;
    otherwise_ = otherwise;
    tag_ = tag_of(mark, polled());
    for (Peer& peer : peers_) peer.told = peer.asked = false;
  }

  // Others notice the closed connections, and find the reason in the store.
  void give_up(const std::string& reason) override {
    if (failed()) return;  // they know
    note(-1, reason);
    if (meeting_) meeting_->give_up(reason);
    hang_up();
  }

 private:
  struct Pending {
    c10::intrusive_ptr<c10d::Work> work;
    int peer = 0;
    Recv* recv = nullptr;  // what a receive fills; null: a mark
    at::Tensor memory{};   // of the message, unless it is the caller's
  };
  struct Peer {
    std::unique_ptr<CommThread> waiter;  // created when first needed
    std::uint64_t mark = 0;              // the last mark received
    bool told = true, asked = true;      // whether marks were sent and received since require_same()
  };
  struct Failure {
    int peer = 0;
    std::string reason;
  };

  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    if (const auto before = failed()) fail(operation(), before->peer, "an operation failed before: " + before->reason);
    until_ = Clock::now() + deadline();
    const bool several = recvs.size() > 1 && !polled();
    if (several) make_waiters(recvs);  // a posted receive cannot be abandoned
    for (Recv& recv : recvs) start_receive(recv);
    if (several) wait_on_threads();
    for (const Send& send : sends) start_send(send);
    if (several) {
      join_threads();
    } else {
      for (const Pending& recv : incoming_) receive(recv);
    }
    for (const Pending& send : outgoing_) finish(send);
    const auto failure = failed();
    if (failure) leave_behind();
    incoming_.clear();
    outgoing_.clear();
    if (failure) fail_because(operation(), failure->peer, failure->reason);
  }

  std::unique_ptr<Communicator> do_clone() override {
    if (!meeting_) throw std::logic_error("a group that somebody else made cannot be cloned");
    return std::make_unique<C10dCommunicator>(meeting_, settings_, meeting_->next_name(group_name_), rank(), size(),
                                              deadlines());
  }

  std::unique_ptr<Mailbox> do_open_mailbox(std::size_t max_bytes) override {
    if (!meeting_) return Communicator::do_open_mailbox(max_bytes);
    return make_gloo_mailbox(open(meeting_->next_name("mail")), meeting_, max_bytes, deadlines());
  }

  // Gloo waits for each peer in turn, and for the store; none of that can be cancelled.
  GroupPtr open(const std::string& group, const Stop& stop = {}) {
    std::string reason = "timed out";
    try {
      const auto until = Clock::now() + deadline() + std::chrono::seconds(1);  // Gloo's own error says more
      const auto made = bounded(until, stop,
                                [store = as_c10d(meeting_->section(group), deadline()), rank = rank(), size = size(),
                                 settings = settings_]() -> GroupPtr {
                                  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, settings);
                                });
      if (made) return *made;
      if (const int signal = stop ? stop() : 0; signal != 0) {
        const std::string error = failure("connect", -1, "stopped by a signal");
        meeting_->give_up(error);
        throw Stopped(error, signal);
      }
    } catch (const Stopped&) {
      throw;
    } catch (const std::exception& error) {
      reason = plain_reason(error.what(), deadline());
    }
    fail_because("connect", -1, plain_reason(reason, deadline()));
  }

  // Incomplete messages stay with their memory until the process ends: MPI continues to read and write it, and its
  // works end the process if they are destroyed before they are complete.
  void leave_behind() {
    if (!polled()) return;
    auto left = std::make_unique<std::vector<Pending>>();
    for (auto* all : {&incoming_, &outgoing_}) {
      std::ranges::copy_if(*all, std::back_inserter(*left),
                           [](const Pending& pending) { return !pending.work->isCompleted(); });
    }
    static_cast<void>(left.release());
  }

  bool polled() const { return memory_.polled(); }  // messages progress only when tested
  Peer& of(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  // The first message in a direction after require_same() is preceded by a mark.
  void start_receive(Recv& recv) {
    if (failed()) return;
    try {
      if (!std::exchange(of(recv.peer).asked, true)) {
        const auto room = std::as_writable_bytes(std::span(&of(recv.peer).mark, 1));
        incoming_.push_back(
            {group_->recv(memory_.of_room(room), recv.peer, mark_tag), recv.peer, nullptr, memory_.own()});
        traffic_.bytes_received += room.size();
      }
      incoming_.push_back(
          {group_->recv(memory_.of_room(recv.buffer), recv.peer, tag_), recv.peer, &recv, memory_.own()});
    } catch (const std::exception& error) {
      note(recv.peer, error.what());
    }
  }

  void start_send(const Send& send) {
    if (send.not_before > Clock::now()) {
      Lock lock(mutex_);
      changed_.wait_until(lock, std::min(send.not_before, until_),
                          [this]() SOTTO_REQUIRES(mutex_) { return failure_.has_value(); });
    }
    if (failed()) return;
    if (send.not_before >= until_) return note(send.peer, "timed out");
    try {
      if (!std::exchange(of(send.peer).told, true)) {
        const auto mark = std::as_bytes(std::span(&mark_, 1));
        outgoing_.push_back(
            {group_->send(memory_.of_data(mark), send.peer, mark_tag), send.peer, nullptr, memory_.own()});
        traffic_.bytes_sent += mark.size();
        ++traffic_.messages_sent;
      }
      outgoing_.push_back(
          {group_->send(memory_.of_data(send.data), send.peer, tag_), send.peer, nullptr, memory_.own()});
    } catch (const std::exception& error) {
      note(send.peer, error.what());
    }
  }

  // Gloo's messages complete only when waited for, and a wait cannot be tried. So one thread per peer waits for
  // receives from several peers. Each notes its own time of arrival, and the first lost peer ends all.
  void make_waiters(std::span<const Recv> recvs) {
    try {
      for (const Recv& recv : recvs) {
        auto& waiter = of(recv.peer).waiter;
        if (!waiter) waiter = std::make_unique<CommThread>();
      }
    } catch (const Error& error) {
      note(-1, error.what());
      fail_because(operation(), -1, failed()->reason);
    }
  }

  void wait_on_threads() {
    {
      const Lock lock(mutex_);
      left_ = incoming_.size();
    }
    for (const Pending& recv : incoming_) {
      of(recv.peer).waiter->post([this, &recv] {
        receive(recv);
        const Lock lock(mutex_);
        if (--left_ == 0) changed_.notify_all();
      });
    }
  }

  void join_threads() {
    Lock lock(mutex_);
    changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return left_ == 0 || failure_; });
    if (!failure_) return;
    lock.unlock();
    for (const Pending& recv : incoming_) recv.work->abort();
    lock.lock();
    changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return left_ == 0; });
  }

  void receive(const Pending& pending) {
    if (!finish(pending)) return;
    if (pending.recv != nullptr) {
      C10dMemory::take(pending.memory, pending.recv->buffer);
      pending.recv->arrived = Clock::now();
      return;
    }
    C10dMemory::take(pending.memory, std::as_writable_bytes(std::span(&of(pending.peer).mark, 1)));
    if (of(pending.peer).mark != mark_) note(pending.peer, otherwise_);
  }

  bool finish(const Pending& pending) {
    if (failed()) return false;
    try {
      // A wait in MPI has no time limit, and keeps all other threads out of MPI.
      while (polled() && !pending.work->isCompleted()) {
        if (Clock::now() >= until_) {
          note(pending.peer, "timed out");
          return false;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now());
      return pending.work->wait(std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception& error) {
      note(pending.peer, error.what());
      return false;
    }
  }

  std::optional<Failure> failed() {
    const Lock lock(mutex_);
    return failure_;
  }

  // Only the first failure counts. If a wait times out, Gloo closes all connections, so other waits then fail as well.
  void note(int peer, std::string_view what) {
    const std::string reason = plain_reason(what, deadline());
    const Lock lock(mutex_);
    const auto timed_out = [](const std::string& text) { return text.starts_with("timed out"); };
    if (!failure_ || (timed_out(reason) && !timed_out(failure_->reason))) failure_ = {peer, reason};
    changed_.notify_all();
  }

  // Peers that wait for this rank notice the closed connections.
  void hang_up() {
    if (meeting_) group_.reset();
  }

  [[noreturn]] void fail_because(std::string_view operation, int peer, const std::string& reason) {
    const std::string cause = meeting_ ? meeting_->report(peer, failure(operation, peer, reason)) : "";
    hang_up();
    fail(operation, peer, reason_with(reason, cause));
  }

  std::shared_ptr<Meeting> meeting_;  // for our own connections; null: somebody else's
  GlooSettings settings_;
  std::string group_name_;
  std::string name_;
  GroupPtr group_;
  C10dMemory memory_{false};

  // For the current exchange.
  std::vector<Pending> incoming_;
  std::vector<Pending> outgoing_;
  Clock::time_point until_;

  Mutex mutex_;
  Condition changed_;
  std::size_t left_ SOTTO_GUARDED_BY(mutex_) = 0;            // receives that a thread still waits for
  std::optional<Failure> failure_ SOTTO_GUARDED_BY(mutex_);  // permanent: ranks are out of step

  std::uint64_t mark_ = 0;
  std::string_view otherwise_;
  int tag_ = plain_tag;
  std::vector<Peer> peers_;  // last: their threads must end before what they use
};

}  // namespace

std::unique_ptr<Communicator> on_own_connections(std::shared_ptr<Meeting> meeting, GlooSettings settings, int rank,
                                                 int size, std::chrono::milliseconds deadline, const Stop& stop) {
  return std::make_unique<C10dCommunicator>(std::move(meeting), std::move(settings), "gloo", rank, size, deadline,
                                            stop);
}

std::unique_ptr<Communicator> on_group(GroupPtr group, std::chrono::milliseconds deadline) {
  return std::make_unique<C10dCommunicator>(std::move(group), deadline);
}

int compute_threads() { return at::get_num_threads(); }

void set_compute_threads(int count) { at::set_num_threads(count); }

}  // namespace sotto
