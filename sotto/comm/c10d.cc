// The c10d backend: batches of point-to-point messages over LibTorch's ProcessGroupGloo, or over a backend of another
// kind that somebody else made. Collectives are those of Communicator, not Gloo's: they have the same bits as on every
// other backend, their bytes are counted one by one, an error names the peer, and they are faster than Gloo's (but for
// an all-reduce of tens of megabytes at memory speed: 1.3 times slower).
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <iterator>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/comm/bounded.h"
#include "sotto/comm/c10d_reason.h"
#include "sotto/comm/comm_thread.h"
#include "sotto/comm/gloo_mailbox.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/meeting.h"
#include "sotto/comm/process_group.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using GlooSettings = c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>;

// Messages of ours on a group of somebody else are told from theirs by this tag ("so"). Those of ranks whose marks
// differ must not meet, since their rooms may not fit: the mark is part of the tag. MPI wants tags below 2^15; there
// one pair of marks in 3000 is told apart by the marks alone.
constexpr int plain_tag = 0x736F;
constexpr int mark_tag = plain_tag + 1;
int tag_of(std::uint64_t mark, bool mpi) { return mark_tag + 1 + static_cast<int>(mark % (mpi ? 3000 : 1U << 30U)); }

class C10dCommunicator final : public Communicator {
 public:
  // On connections of its own.
  C10dCommunicator(std::shared_ptr<Meeting> meeting, GlooSettings settings, std::string group, int rank, int size,
                   const Stop& stop = {})
      : Communicator(rank, size, settings->timeout),
        meeting_(std::move(meeting)),
        settings_(std::move(settings)),
        group_name_(std::move(group)),
        name_("gloo"),
        tensor_(1),
        peers_(static_cast<std::size_t>(size)) {
    group_ = connect(group_name_, stop);
  }

  // On somebody else's, who closes it.
  C10dCommunicator(c10::intrusive_ptr<c10d::Backend> group, std::chrono::milliseconds deadline)
      : Communicator(group->getRank(), group->getSize(), deadline),
        name_(group->getBackendName()),
        polled_(name_ != "gloo"),
        group_(std::move(group)),
        tensor_(1),
        peers_(static_cast<std::size_t>(size())) {}

  std::string_view name() const override { return name_; }

  void agree_on(std::uint64_t mark, std::string_view otherwise) override {
    mark_ = mark;
    otherwise_ = otherwise;
    tag_ = tag_of(mark, polled_);
    for (Peer& peer : peers_) peer.told = peer.asked = false;
  }

  // Others learn of it by the closed connections, and the reason from the store.
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
    at::Tensor memory{};   // of the message, where that is not the caller's
  };
  struct Peer {
    std::unique_ptr<CommThread> waiter;  // made when first needed
    std::uint64_t mark = 0;              // the last that came
    bool told = true, asked = true;      // of marks, since agree_on()
  };
  struct Failure {
    int peer = 0;
    std::string reason;
  };

  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    if (failure_) fail(operation(), failure_->peer, "an operation failed before: " + failure_->reason);
    until_ = Clock::now() + deadline();
    const bool several = recvs.size() > 1 && !polled_;
    if (several) make_waiters(recvs);  // a receive that was posted cannot be left
    for (Recv& recv : recvs) start_receive(recv);
    if (several) wait_on_threads();
    for (const Send& send : sends) start_send(send);
    if (several) {
      join_threads();
    } else {
      for (const Pending& recv : incoming_) receive(recv);
    }
    for (const Pending& send : outgoing_) finish(send);
    if (failure_) leave_behind();
    incoming_.clear();
    outgoing_.clear();
    if (failure_) fail_because(operation(), failure_->peer, failure_->reason);
  }

  std::unique_ptr<Communicator> do_clone() override {
    if (!meeting_) throw std::logic_error("a group that somebody else made cannot be cloned");
    return std::make_unique<C10dCommunicator>(meeting_, settings_, meeting_->next_name(group_name_), rank(), size());
  }

  std::unique_ptr<Mailbox> do_open_mailbox(std::size_t max_bytes) override {
    if (!meeting_) return Communicator::do_open_mailbox(max_bytes);
    return make_gloo_mailbox(connect(meeting_->next_name("mail")), meeting_, max_bytes, deadline());
  }

  // Gloo waits for each peer in turn, and asks the store; nothing of that can be called off.
  c10::intrusive_ptr<c10d::Backend> connect(const std::string& group, const Stop& stop = {}) {
    std::string reason = "timed out";
    try {
      const auto until = Clock::now() + deadline() + std::chrono::seconds(1);  // Gloo's own deadline says more
      const auto made = bounded(until, stop,
                                [store = meeting_->section(group), rank = rank(), size = size(),
                                 settings = settings_]() -> c10::intrusive_ptr<c10d::Backend> {
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

  // Gloo takes tensors; this one points at the caller's memory.
  std::vector<at::Tensor>& tensor_of(std::span<const std::byte> data) {
    tensor_[0] =
        at::from_blob(const_cast<std::byte*>(data.data()), {static_cast<std::int64_t>(data.size())}, at::kByte);
    return tensor_;
  }

  // Where a message is filled in, or stands to be sent: the caller's memory, but for groups that cannot give a message
  // up, whose messages need memory that may stay behind.
  std::vector<at::Tensor>& memory_for(std::span<std::byte> room) {
    if (!polled_) return tensor_of(room);
    tensor_[0] = at::empty({static_cast<std::int64_t>(room.size())}, at::kByte);
    return tensor_;
  }
  std::vector<at::Tensor>& memory_with(std::span<const std::byte> data) {
    if (!polled_) return tensor_of(data);
    tensor_[0] = at::empty({static_cast<std::int64_t>(data.size())}, at::kByte);
    if (!data.empty()) std::memcpy(tensor_[0].mutable_data_ptr(), data.data(), data.size());
    return tensor_;
  }
  // Of the last of these, if it is ours.
  at::Tensor memory() const { return polled_ ? tensor_[0] : at::Tensor(); }
  static void take(const Pending& pending, std::span<std::byte> room) {
    if (pending.memory.defined() && !room.empty())
      std::memcpy(room.data(), pending.memory.const_data_ptr(), room.size());
  }

  // What is not complete stays with its memory until the process ends: MPI goes on to read and write that, and its
  // works end the process when they are destroyed before they are complete.
  void leave_behind() {
    if (!polled_) return;
    auto left = std::make_unique<std::vector<Pending>>();
    for (auto* all : {&incoming_, &outgoing_}) {
      std::ranges::copy_if(*all, std::back_inserter(*left),
                           [](const Pending& pending) { return !pending.work->isCompleted(); });
    }
    static_cast<void>(left.release());
  }

  Peer& of(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  // The first message in a direction since agree_on() has a mark before it.
  void start_receive(Recv& recv) {
    if (failed()) return;
    try {
      if (!std::exchange(of(recv.peer).asked, true)) {
        const auto room = std::as_writable_bytes(std::span(&of(recv.peer).mark, 1));
        incoming_.push_back({group_->recv(memory_for(room), recv.peer, mark_tag), recv.peer, nullptr, memory()});
        traffic_.bytes_received += room.size();
      }
      incoming_.push_back({group_->recv(memory_for(recv.buffer), recv.peer, tag_), recv.peer, &recv, memory()});
    } catch (const std::exception& error) {
      note(recv.peer, error.what());
    }
  }

  void start_send(const Send& send) {
    if (send.not_before > Clock::now()) {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, std::min(send.not_before, until_), [this] { return failure_.has_value(); });
    }
    if (failed()) return;
    if (send.not_before >= until_) return note(send.peer, "timed out");
    try {
      if (!std::exchange(of(send.peer).told, true)) {
        const auto mark = std::as_bytes(std::span(&mark_, 1));
        outgoing_.push_back({group_->send(memory_with(mark), send.peer, mark_tag), send.peer, nullptr, memory()});
        traffic_.bytes_sent += mark.size();
        ++traffic_.messages_sent;
      }
      outgoing_.push_back({group_->send(memory_with(send.data), send.peer, tag_), send.peer, nullptr, memory()});
    } catch (const std::exception& error) {
      note(send.peer, error.what());
    }
  }

  // Gloo's messages complete only when waited for, and a wait cannot be tried. So receives from several peers are
  // waited for by a thread a peer: then each notes its own time of arrival, and the first peer that is lost ends all.
  void make_waiters(std::span<const Recv> recvs) {
    try {
      for (const Recv& recv : recvs) {
        auto& waiter = of(recv.peer).waiter;
        if (!waiter) waiter = std::make_unique<CommThread>();
      }
    } catch (const Error& error) {
      note(-1, error.what());
      fail_because(operation(), -1, failure_->reason);
    }
  }

  void wait_on_threads() {
    left_ = incoming_.size();
    for (const Pending& recv : incoming_) {
      of(recv.peer).waiter->post([this, &recv] {
        receive(recv);
        const std::lock_guard lock(mutex_);
        if (--left_ == 0) changed_.notify_all();
      });
    }
  }

  void join_threads() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ == 0 || failure_; });
    if (!failure_) return;
    lock.unlock();
    for (const Pending& recv : incoming_) recv.work->abort();
    lock.lock();
    changed_.wait(lock, [this] { return left_ == 0; });
  }

  void receive(const Pending& pending) {
    if (!finish(pending)) return;
    if (pending.recv != nullptr) {
      take(pending, pending.recv->buffer);
      pending.recv->arrived = Clock::now();
      return;
    }
    take(pending, std::as_writable_bytes(std::span(&of(pending.peer).mark, 1)));
    if (of(pending.peer).mark != mark_) note(pending.peer, otherwise_);
  }

  bool finish(const Pending& pending) {
    if (failed()) return false;
    try {
      // A wait of MPI's has no end, and keeps all other threads out of MPI.
      while (polled_ && !pending.work->isCompleted()) {
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

  bool failed() {
    const std::lock_guard lock(mutex_);
    return failure_.has_value();
  }

  // The first failure counts; but a wait that times out makes Gloo close all connections, and so other waits fail as
  // well.
  void note(int peer, std::string_view what) {
    const std::string reason = plain_reason(what, deadline());
    const std::lock_guard lock(mutex_);
    const auto timed_out = [](const std::string& text) { return text.starts_with("timed out"); };
    if (!failure_ || (timed_out(reason) && !timed_out(failure_->reason))) failure_ = {peer, reason};
    changed_.notify_all();
  }

  // Peers that wait for this rank learn of it by the closed connections.
  void hang_up() {
    if (meeting_) group_.reset();
  }

  [[noreturn]] void fail_because(std::string_view operation, int peer, const std::string& reason) {
    const std::string cause = meeting_ ? meeting_->report(peer, failure(operation, peer, reason)) : "";
    hang_up();
    fail(operation, peer, reason_with(reason, cause));
  }

  std::shared_ptr<Meeting> meeting_;  // with settings and name, of connections of our own; null: of somebody else's
  GlooSettings settings_;
  std::string group_name_;
  std::string name_;
  bool polled_ = false;  // messages make progress when asked for; Gloo's when waited for
  c10::intrusive_ptr<c10d::Backend> group_;

  // Of the exchange that is going on.
  std::vector<at::Tensor> tensor_;
  std::vector<Pending> incoming_;
  std::vector<Pending> outgoing_;
  Clock::time_point until_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t left_ = 0;            // receives that a thread still waits for
  std::optional<Failure> failure_;  // for good: ranks that lost one message no longer fit together

  std::uint64_t mark_ = 0;
  std::string_view otherwise_;
  int tag_ = plain_tag;
  std::vector<Peer> peers_;  // last: its threads end before what they use
};

// Gloo writes to its sockets without MSG_NOSIGNAL, so that a peer's death would kill this process too.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
}

// Looking up a name may take longer than anybody wants to wait.
std::string near_address(const World& world, const GlooOptions& options) {
  const auto address =
      bounded(Clock::now() + options.connect_deadline, options.stop, [world] { return address_towards(world); });
  if (address) return *address;
  const int signal = options.stop ? options.stop() : 0;
  if (signal != 0) throw Stopped(fmt::format("rank {}: stopped by a signal", world.rank), signal);
  throw CommError(fmt::format("rank {}: nobody says where the host `{}` is", world.rank, world.host));
}

}  // namespace

std::unique_ptr<Communicator> connect_gloo(const World& world, const GlooOptions& options) {
  ignore_broken_pipes();
  auto settings = c10d::ProcessGroupGloo::Options::create(options.deadline);
  settings->threads = 1;  // for collectives, which are not used
  try {
    if (!options.interface.empty()) {
      require_interface(options.interface);
      settings->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(options.interface));
    } else {
      const std::string address = options.address.empty() ? near_address(world, options) : options.address;
      settings->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw ConfigError(fmt::format("Gloo cannot use {} {}: {}", options.interface.empty() ? "address" : "interface",
                                  options.interface.empty() ? options.address : options.interface,
                                  plain_reason(error.what(), options.deadline)));
  }
  auto meeting = std::make_shared<Meeting>(world, options.connect_deadline, options.stop);
  return std::make_unique<C10dCommunicator>(std::move(meeting), std::move(settings), "gloo", world.rank, world.size,
                                            options.stop);
}

std::unique_ptr<Communicator> over_process_group(c10d::ProcessGroup& group, std::chrono::milliseconds deadline) {
  ignore_broken_pipes();
  c10::intrusive_ptr<c10d::Backend> backend;
  try {
    backend = group.getBackend(c10::DeviceType::CPU);
  } catch (const std::exception&) {
    throw ConfigError(
        fmt::format("the process group ({}) has no backend for CPU tensors; use a group that has, such "
                    "as torch.distributed.new_group(backend=\"gloo\")",
                    group.getBackendName()));
  }
  return std::make_unique<C10dCommunicator>(std::move(backend), deadline);
}

std::shared_ptr<Meeting> meet(c10d::ProcessGroup& group) {
  const auto store = group.getStore();
  if (!store) {
    throw ConfigError(fmt::format("the process group ({}) has no store, through which connections could be made",
                                  group.getBackendName()));
  }
  return std::make_shared<Meeting>(store, group.getRank(), group.getSize());
}

std::unique_ptr<Communicator> beside_process_group(c10d::ProcessGroup& group, std::shared_ptr<Meeting> meeting,
                                                   std::chrono::milliseconds deadline) {
  ignore_broken_pipes();
  meeting->wait_for_all(deadline);
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  for (const auto& device : group.getDeviceTypes()) {
    if (!gloo) gloo = c10::dynamic_intrusive_pointer_cast<c10d::ProcessGroupGloo>(group.getBackend(device.type()));
  }
  auto settings = gloo ? c10d::ProcessGroupGloo::Options::create(deadline)
                       : c10d::ProcessGroupGloo::Options::create_default(deadline);
  if (gloo) settings->devices = gloo->getOptions()->devices;
  settings->timeout = deadline;
  settings->threads = 1;
  return std::make_unique<C10dCommunicator>(std::move(meeting), std::move(settings), "gloo", group.getRank(),
                                            group.getSize());
}

}  // namespace sotto
