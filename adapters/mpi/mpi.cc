#include "adapters/mpi/mpi.h"

#include <fmt/format.h>

#include <array>

#include "adapters/mpi/session.h"

namespace sotto {
namespace {

constexpr int tag = 0x736F;  // "so"; each communicator has its own MPI group, so one tag suffices

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<MpiSession> session, MPI_Comm group, Deadline deadline)
      : Communicator(session->rank(), session->size(), std::move(deadline)),
        session_(std::move(session)),
        group_(group) {}
  ~MpiCommunicator() override { session_->release(group_); }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  std::string_view name() const override { return "mpi"; }

  void give_up(const std::string& reason) override {
    const std::string error = fmt::format("rank {}: {}", rank(), reason);
    session_->tell(-1, error);
    session_->fail(error);
  }

 private:
  struct Pending {
    int peer = 0;
    Recv* recv = nullptr;  // what a receive fills; null: a send
  };
  struct Failure {
    int peer = -1;
    std::string reason;
    bool peers_fault = false;  // the peer may have reported why
  };

  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    requests_.clear();
    pending_.clear();
    statuses_.resize(std::max(statuses_.size(), sends.size() + recvs.size()));
    done_.resize(statuses_.size());
    if (const auto failure = carry_out(sends, recvs)) {
      take_back();
      fail_because(*failure);
    }
  }

  std::optional<Failure> carry_out(std::span<const Send> sends, std::span<Recv> recvs) {
    const auto until = Clock::now() + deadline();
    std::optional<Failure> failure;
    for (std::size_t i = 0; i < recvs.size() && !failure; ++i) failure = start(recvs[i]);
    std::size_t started = 0;
    std::size_t left = recvs.size() + sends.size();
    for (Patience patience; !failure;) {
      while (started < sends.size() && sends[started].not_before <= Clock::now() && !failure)
        failure = start(sends[started++]);
      if (failure) break;
      const std::size_t before = left;
      failure = test(left);
      if (left == 0 || failure) break;
      if (left != before) {
        patience.progress();
        continue;
      }
      if (Clock::now() >= until) return late(started < sends.size() ? &sends[started] : nullptr);
      if (patience.is_long()) failure = hear();
      patience.pause(started < sends.size() ? std::min(until, sends[started].not_before) : until);
    }
    return failure;
  }

  std::optional<Failure> start(Recv& recv) {
    return start(recv.peer, &recv, "MPI_Irecv", [&](MPI_Request& request) {
      const MpiExtent extent(recv.buffer.size());
      return MPI_Irecv(recv.buffer.data(), extent.count(), extent.type(), recv.peer, tag, group_, &request);
    });
  }

  std::optional<Failure> start(const Send& send) {
    return start(send.peer, nullptr, "MPI_Isend", [&](MPI_Request& request) {
      const MpiExtent extent(send.data.size());
      return MPI_Isend(send.data.data(), extent.count(), extent.type(), send.peer, tag, group_, &request);
    });
  }

  template <class Call>
  std::optional<Failure> start(int peer, Recv* recv, const char* name, Call call) {
    const auto lock = session_->enter();
    if (!lock) return failed_before();
    MPI_Request request = MPI_REQUEST_NULL;
    if (const int code = call(request); code != MPI_SUCCESS) return Failure{peer, mpi_reason(name, code)};
    requests_.push_back(request);
    pending_.push_back({peer, recv});
    return std::nullopt;
  }

  // Tests which messages are complete.
  std::optional<Failure> test(std::size_t& left) {
    const auto lock = session_->enter();
    if (!lock) return failed_before();
    int count = 0;
    const int code =
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return Failure{-1, mpi_reason("MPI_Testsome", code)};
    for (int i = 0; i < count; ++i) {  // without any it is MPI_UNDEFINED, which is negative
      const Pending& message = pending_[static_cast<std::size_t>(done_[static_cast<std::size_t>(i)])];
      if (code == MPI_ERR_IN_STATUS) {
        const int error = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
        if (error != MPI_SUCCESS && error != MPI_ERR_PENDING) return Failure{message.peer, reason_of(error, message)};
      }
      if (message.recv != nullptr) message.recv->arrived = Clock::now();
      --left;
    }
    return std::nullopt;
  }

  static std::string reason_of(int error, const Pending& message) {
    int kind = MPI_SUCCESS;
    MPI_Error_class(error, &kind);
    if (kind == MPI_ERR_TRUNCATE && message.recv != nullptr)
      return fmt::format("a message that is larger than its room of {} bytes", message.recv->buffer.size());
    return mpi_reason("MPI_Testsome", error);
  }

  // Returns the failure of another rank that has reported one, if any.
  std::optional<Failure> hear() {
    const auto lock = session_->enter();
    if (!lock) return failed_before();
    const int peer = session_->listen();
    return peer < 0 ? std::nullopt : std::optional(Failure{peer, "it gave up", true});
  }

  Failure failed_before() const { return {-1, "an operation failed before: " + session_->failure()}; }

  Failure late(const Send* held_back) const {
    const auto reason = fmt::format("timed out after {:g} s", std::chrono::duration<double>(deadline()).count());
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] != MPI_REQUEST_NULL) return {pending_[i].peer, reason, true};
    }
    return {held_back == nullptr ? -1 : held_back->peer, reason, true};
  }

  // Cancels receives for which nothing has come. MPI keeps the other receives, so this process must not call MPI again
  // once the caller frees their memory.
  void take_back() {
    const auto lock = session_->enter();
    if (!lock) return;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL || pending_[i].recv == nullptr) continue;
      int gone = 0;
      MPI_Cancel(&requests_[i]);
      MPI_Test(&requests_[i], &gone, MPI_STATUS_IGNORE);
    }
  }

  [[noreturn]] void fail_because(const Failure& found) {
    const auto& [peer, reason, peers_fault] = found;
    const std::string error = failure(operation(), peer, reason);
    const std::string cause = session_->tell(peers_fault ? peer : -1, error);
    session_->fail(error);
    fail(operation(), peer, cause.empty() ? reason : fmt::format("{} (because of {})", reason, cause));
  }

  std::unique_ptr<Communicator> do_clone() override {
    hear_from_all();  // its error names missing ranks
    return std::make_unique<MpiCommunicator>(session_, session_->duplicate(group_), deadlines());
  }

  std::unique_ptr<Mailbox> do_open_mailbox(std::size_t max_bytes) override {
    return make_mpi_mailbox(session_, session_->duplicate(group_), max_bytes, deadlines());
  }

  std::shared_ptr<MpiSession> session_;
  MPI_Comm group_;
  // For the current exchange; kept, so that a step allocates nothing.
  std::vector<MPI_Request> requests_;
  std::vector<Pending> pending_;
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string_view name(text.data());
  name = name.substr(0, name.find_first_of(",\n"));  // "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\n..."
  std::string one_line(name);
  std::ranges::replace(one_line, '\t', ' ');
  return one_line;
}

void require_mpi(const World& world) {
  const std::string& starter = world.starter;
  if (starter == "openmpi" || starter == "mpich" || starter == "slurm") return;
  throw ConfigError(
      fmt::format("{}: MPI wants ranks that mpirun or srun started{}; start them with `mpirun -n {} sotto train {} "
                  "...`, or leave {} out",
                  named("backend", "mpi"), starter == "single" ? "" : fmt::format(", not {}", starter), world.size,
                  named("backend", "mpi"), named("backend", "mpi")));
}

std::unique_ptr<Communicator> connect_mpi(const World& world, const TransportOptions& options) {
  require_mpi(world);
  auto session = std::make_shared<MpiSession>(options.deadline);
  if (session->rank() != world.rank || session->size() != world.size) {
    throw ConfigError(
        fmt::format("{}: {} says that this is rank {} of {}, and the MPI that this program was built with ({}) that it "
                    "is rank {} of {}: start it with the mpirun of that MPI; with srun, see `srun --mpi=list`",
                    named("backend", "mpi"), world.starter, world.rank, world.size, mpi_library(), session->rank(),
                    session->size()));
  }
  MPI_Comm group = session->duplicate(MPI_COMM_WORLD);
  return std::make_unique<MpiCommunicator>(std::move(session), group, options.deadline);
}

}  // namespace sotto
