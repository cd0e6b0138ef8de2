#include "adapters/c10d/staged.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include "adapters/c10d/c10d.h"
#include "adapters/c10d/store.h"

namespace sotto {
namespace {

// The bytes of a batch of messages on the device; each message starts at an address that the device copies fast.
class Stage {
 public:
  explicit Stage(c10::Device device) : device_(device) {}

  void begin(std::size_t messages) {
    places_.clear();
    places_.reserve(messages);
    size_ = 0;
  }
  void append(std::size_t bytes) {
    places_.push_back({size_, static_cast<std::int64_t>(bytes)});
    size_ += (places_.back().bytes + alignment - 1) / alignment * alignment;
  }
  void allocate() {
    if (!bytes_.defined() || bytes_.numel() < size_) {
      bytes_ = at::empty({size_}, at::TensorOptions().dtype(at::kByte).device(device_));
    }
  }
  bool empty(std::size_t message) const { return places_[message].bytes == 0; }
  at::Tensor at(std::size_t message) const { return bytes_.narrow(0, places_[message].begin, places_[message].bytes); }
  void write(std::size_t message, std::span<const std::byte> data) {
    if (!data.empty()) at(message).copy_(tensor_of(data));
  }
  void read(std::size_t message, std::span<std::byte> room) const {
    if (!empty(message)) tensor_of(room.first(static_cast<std::size_t>(places_[message].bytes))).copy_(at(message));
  }

 private:
  static constexpr std::int64_t alignment = 256;
  struct Place {
    std::int64_t begin, bytes;
  };

  static at::Tensor tensor_of(std::span<const std::byte> data) {
    return at::from_blob(const_cast<std::byte*>(data.data()), {static_cast<std::int64_t>(data.size())}, at::kByte);
  }

  c10::Device device_;
  at::Tensor bytes_;
  std::vector<Place> places_;
  std::int64_t size_ = 0;
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::shared_ptr<Meeting> meeting, StagedBackend backend, const std::string& group, int rank,
                     int size, Deadline deadline)
      : Communicator(rank, size, std::move(deadline)),
        meeting_(std::move(meeting)),
        backend_(std::move(backend)),
        group_name_(group),
        outgoing_(backend_.device),
        incoming_(backend_.device) {
    try {
      group_ = backend_.connect(as_c10d(meeting_->section(group), Communicator::deadline()));
      meet();
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& error) {
      fail_because("connect", -1, error.what());
    }
  }

  std::string_view name() const override { return backend_.name; }
  bool goes_in_rounds() const override { return false; }  // one rank must not go in rounds while another does not

  void give_up(const std::string& reason) override {
    if (failure_) return;  // they know
    failure_ = {-1, reason};
    meeting_->give_up(reason);
    hang_up();
  }

 private:
  struct Failure {
    int peer;
    std::string reason;
  };

  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    if (failure_) fail(operation(), failure_->peer, "an operation failed before: " + failure_->reason);
    until_ = Clock::now() + deadline();
    try {
      wait_for_begin(sends);
      exchange_lengths(sends, recvs);
      exchange_messages(sends, recvs);
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& error) {
      fail_because(operation(), peer_of(sends, recvs), error.what());
    }
  }

  std::unique_ptr<Communicator> do_clone() override {
    return std::make_unique<StagedCommunicator>(meeting_, backend_, meeting_->next_name(group_name_), rank(), size(),
                                                deadlines());
  }

  // All ranks make the connections together when they are first used.
  void meet() {
    until_ = Clock::now() + deadline();
    std::vector<at::Tensor> one{at::ones({1}, at::TensorOptions().dtype(at::kFloat).device(backend_.device))};
    wait(group_->allreduce(one), -1);
  }

  // The device transfers all messages of an exchange together, so it waits for the latest `not_before`.
  void wait_for_begin(std::span<const Send> sends) {
    Clock::time_point begin{};
    for (const Send& send : sends) begin = std::max(begin, send.not_before);
    if (begin <= Clock::now()) return;
    std::this_thread::sleep_until(std::min(begin, until_));
    if (begin >= until_) fail_because(operation(), peer_of(sends, {}), "timed out");
  }

  void exchange_lengths(std::span<const Send> sends, std::span<const Recv> recvs) {
    lengths_.resize(sends.size() + recvs.size());
    outgoing_.begin(sends.size());
    incoming_.begin(recvs.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
      lengths_[i] = sends[i].data.size();
      outgoing_.append(sizeof(std::uint64_t));
    }
    for (std::size_t i = 0; i < recvs.size(); ++i) incoming_.append(sizeof(std::uint64_t));
    outgoing_.allocate();
    incoming_.allocate();
    const auto length = [this](std::size_t i) { return std::as_writable_bytes(std::span(&lengths_[i], 1)); };
    for (std::size_t i = 0; i < sends.size(); ++i) outgoing_.write(i, length(i));
    transfer(sends, recvs);
    for (std::size_t i = 0; i < recvs.size(); ++i) {
      const std::size_t mine = sends.size() + i;
      incoming_.read(i, length(mine));
      if (lengths_[mine] > recvs[i].buffer.size()) {
        fail_because(operation(), recvs[i].peer,
                     fmt::format("a message of {} bytes came where there is room for {}", lengths_[mine],
                                 recvs[i].buffer.size()));
      }
    }
  }

  void exchange_messages(std::span<const Send> sends, std::span<Recv> recvs) {
    outgoing_.begin(sends.size());
    incoming_.begin(recvs.size());
    for (const Send& send : sends) outgoing_.append(send.data.size());
    for (std::size_t i = 0; i < recvs.size(); ++i) incoming_.append(lengths_[sends.size() + i]);
    outgoing_.allocate();
    incoming_.allocate();
    for (std::size_t i = 0; i < sends.size(); ++i) outgoing_.write(i, sends[i].data);
    transfer(sends, recvs);
    for (std::size_t i = 0; i < recvs.size(); ++i) {
      incoming_.read(i, recvs[i].buffer);
      recvs[i].arrived = Clock::now();
    }
  }

  // Transfers the staged messages, except empty ones.
  void transfer(std::span<const Send> sends, std::span<const Recv> recvs) {
    group_->startCoalescing();
    for (std::size_t i = 0; i < recvs.size(); ++i) {
      if (incoming_.empty(i)) continue;
      std::vector<at::Tensor> room{incoming_.at(i)};
      group_->recv(room, recvs[i].peer, 0);
    }
    for (std::size_t i = 0; i < sends.size(); ++i) {
      if (outgoing_.empty(i)) continue;
      std::vector<at::Tensor> data{outgoing_.at(i)};
      group_->send(data, sends[i].peer, 0);
    }
    wait(group_->endCoalescing(), peer_of(sends, recvs));
  }

  // Waiting in the device's queue has no time limit, so the host polls first.
  void wait(const c10::intrusive_ptr<c10d::Work>& work, int peer) {
    if (!work) return;  // there was nothing to send
    while (!work->isCompleted()) {
      if (Clock::now() >= until_) fail_because(operation(), peer, "timed out");
      std::this_thread::sleep_for(std::chrono::microseconds(10));
    }
    if (const auto error = work->exception()) std::rethrow_exception(error);  // NCCL's wait() does not tell of it
    work->wait();
  }

  // The only peer of an exchange, or a number below 0.
  static int peer_of(std::span<const Send> sends, std::span<const Recv> recvs) {
    std::optional<int> only;
    const auto add = [&](int peer) { only = !only || *only == peer ? peer : -1; };
    for (const Send& send : sends) add(send.peer);
    for (const Recv& recv : recvs) add(recv.peer);
    return only.value_or(-1);
  }

  // Peers that wait for this rank notice it if their connections report it.
  void hang_up() {
    if (!group_) return;
    group_->abort();
    group_.reset();
  }

  [[noreturn]] void fail_because(std::string_view operation, int peer, std::string_view what) {
    const std::string reason = plain_reason(what, deadline());
    failure_ = {peer, reason};
    const std::string cause = meeting_->report(peer, failure(operation, peer, reason));
    hang_up();
    fail(operation, peer, reason_with(reason, cause));
  }

  std::shared_ptr<Meeting> meeting_;
  StagedBackend backend_;
  std::string group_name_;
  c10::intrusive_ptr<c10d::Backend> group_;
  Stage outgoing_, incoming_;
  std::vector<std::uint64_t> lengths_;  // of sends, then of receives
  Clock::time_point until_;             // of the current exchange
  std::optional<Failure> failure_;      // permanent: ranks that lost one message are out of step
};

}  // namespace

std::unique_ptr<Communicator> make_staged(std::shared_ptr<Meeting> meeting, StagedBackend backend, int rank, int size,
                                          std::chrono::milliseconds deadline) {
  const std::string group = backend.name;
  return std::make_unique<StagedCommunicator>(std::move(meeting), std::move(backend), group, rank, size, deadline);
}

}  // namespace sotto
