#include "adapters/mpi/session.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr int notice_tag = 0;
constexpr int end_tag = 1;

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

void check(const char* call, int code) {
  if (code != MPI_SUCCESS) throw CommError(mpi_reason(call, code));
}

// With some starters, a process that ends without MPI_Finalize leaves the others waiting.
void abort_unless_finalized(int status, void* /*unused*/) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  std::fflush(nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // time for the others to print their errors, too
  MPI_Abort(MPI_COMM_WORLD, status == 0 ? 1 : status);
}

void require_threads(int provided) {
  if (provided >= MPI_THREAD_MULTIPLE) return;
  throw ConfigError(named("backend", "mpi") +
                    ": this MPI gives no MPI_THREAD_MULTIPLE, which communication beside computation needs; use one "
                    "that was built with it, or " +
                    named("backend", "gloo"));
}

}  // namespace

std::string mpi_reason(const char* call, int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return fmt::format("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(std::max(length, 0))));
}

MpiSession::MpiSession(std::chrono::milliseconds deadline)
    : deadline_(deadline), exceptions_(std::uncaught_exceptions()) {
  int initialized = 0;
  int finalized = 0;
  int provided = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized != 0) throw ConfigError("MPI has ended in this process, and cannot be started a second time");
  if (initialized != 0) {
    MPI_Query_thread(&provided);
    require_threads(provided);
  } else {
    check("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
    ::on_exit(abort_unless_finalized, nullptr);
    require_threads(provided);
    owner_ = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  heard_.resize(static_cast<std::size_t>(size_));
  notices_ = duplicate(MPI_COMM_WORLD);
}

MpiSession::~MpiSession() {
  end();
  // Memory that MPI may still use is not freed while the process lives.
  if (!kept_->empty()) static_cast<void>(kept_.release());
}

void MpiSession::end() {
  if (over_ || std::uncaught_exceptions() > exceptions_) return;
  if (!owner_) {
    release(notices_);
    return;
  }
  try {
    finalize();
  } catch (const std::exception& error) {
    print_error(fmt::format("sotto: rank {}: MPI_Finalize: {}\n", rank_, error.what()));
  }
}

// MPI_Finalize waits for all ranks without a limit. To find missing ranks, all pairs of ranks therefore exchange a
// message first.
void MpiSession::finalize() {
  const auto until = Clock::now() + deadline_;
  std::vector<MPI_Request> sends(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
  std::vector<MPI_Request> recvs(sends);
  for (int peer = 0; peer < size_; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer == rank_) continue;
    check("MPI_Isend", MPI_Isend(nullptr, 0, MPI_BYTE, peer, end_tag, notices_, &sends[at]));
    check("MPI_Irecv", MPI_Irecv(nullptr, 0, MPI_BYTE, peer, end_tag, notices_, &recvs[at]));
  }
  for (int peer = 0; peer < size_; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (finish(recvs[at], until) && finish(sends[at], until)) continue;
    const int failed = listen();
    throw CommError(failed < 0 ? fmt::format("rank {} did not come within {:g} s", peer, seconds(deadline_))
                               : said(failed));
  }
  {
    const Lock lock(mutex_);
    for (Kept& message : *kept_) {
      if (!finish(message.request, until)) throw CommError("a message for a mailbox was never taken");
    }
    kept_->clear();
  }
  release(notices_);
  MPI_Finalize();
}

std::shared_lock<MpiSession::SharedMutex> MpiSession::enter() {
  std::shared_lock lock(use_);
  if (over_) lock.unlock();
  return lock;
}

std::string MpiSession::failure() const {
  const std::shared_lock lock(use_);
  return error_;
}

MPI_Comm MpiSession::duplicate(MPI_Comm group) {
  const auto lock = enter();
  if (!lock) throw CommError("an operation failed before: " + failure());
  auto copy = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  check("MPI_Comm_idup", MPI_Comm_idup(group, copy.get(), &request));
  if (!finish(request, Clock::now() + deadline_)) {
    static_cast<void>(copy.release());  // MPI writes there if the last rank still comes
    throw CommError(fmt::format("rank {}: some rank did not come within {:g} s", rank_, seconds(deadline_)));
  }
  MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN);
  return *copy;
}

void MpiSession::release(MPI_Comm& group) {
  const auto lock = enter();
  if (lock && group != MPI_COMM_NULL) MPI_Comm_free(&group);
}

// Returns false if the request is not complete by `until`.
bool MpiSession::finish(MPI_Request& request, Clock::time_point until) {
  Patience patience;
  for (int done = 0;; patience.pause(until)) {
    check("MPI_Test", MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) return true;
    if (Clock::now() >= until) return false;
  }
}

int MpiSession::listen() {
  const Lock lock(mutex_);
  int there = 0;
  MPI_Status status;
  while (MPI_Iprobe(MPI_ANY_SOURCE, notice_tag, notices_, &there, &status) == MPI_SUCCESS && there != 0) {
    Notice notice;
    if (MPI_Recv(&notice, sizeof(notice), MPI_BYTE, status.MPI_SOURCE, notice_tag, notices_, &status) != MPI_SUCCESS)
      break;
    notice.text[longest_notice - 1] = '\0';
    if (notice.peer < -1 || notice.peer >= size_) notice.peer = -1;
    auto& heard = heard_[static_cast<std::size_t>(status.MPI_SOURCE)];
    if (!heard) heard = notice;
  }
  const auto said = std::ranges::find_if(heard_, [](const auto& heard) { return heard.has_value(); });
  return said == heard_.end() ? -1 : static_cast<int>(said - heard_.begin());
}

std::string MpiSession::said(int rank) {
  const Lock lock(mutex_);
  const auto& heard = heard_[static_cast<std::size_t>(rank)];
  return heard ? heard->text : "";
}

std::string MpiSession::tell(int peer, const std::string& error) {
  const auto lock = enter();
  if (!lock || has_told_.exchange(true)) return {};
  told_.peer = peer;
  error.copy(told_.text, longest_notice - 1);
  std::vector<MPI_Request> sends(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    MPI_Isend(&told_, sizeof(told_), MPI_BYTE, other, notice_tag, notices_, &sends[static_cast<std::size_t>(other)]);
  }
  const auto until = Clock::now() + std::min<Clock::duration>(deadline_, std::chrono::seconds(1));
  std::string cause;
  Patience patience;
  for (int links = 0; peer >= 0 && links < size_ && Clock::now() < until; patience.pause(until)) {
    listen();
    const Lock guard(mutex_);
    for (; peer >= 0 && links < size_ && heard_[static_cast<std::size_t>(peer)]; ++links) {
      cause = heard_[static_cast<std::size_t>(peer)]->text;
      peer = heard_[static_cast<std::size_t>(peer)]->peer;
    }
  }
  int sent = 0;
  MPI_Testall(size_, sends.data(), &sent, MPI_STATUSES_IGNORE);
  return cause;
}

void MpiSession::fail(const std::string& error) {
  const std::unique_lock lock(use_);
  if (over_) return;
  over_ = true;
  error_ = error;
}

void MpiSession::keep(MPI_Request request, std::vector<std::byte> memory) {
  if (request == MPI_REQUEST_NULL) return;
  const Lock lock(mutex_);
  kept_->push_back({request, std::move(memory)});
}

MpiExtent::MpiExtent(std::size_t bytes) {
  if (bytes <= most) {
    count_ = static_cast<int>(bytes);
    return;
  }
  MPI_Datatype chunk = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(most, MPI_BYTE, &chunk);
  const std::array<int, 2> counts{static_cast<int>(bytes / most), static_cast<int>(bytes % most)};
  const std::array<MPI_Aint, 2> places{0, static_cast<MPI_Aint>(bytes / most * most)};
  const std::array<MPI_Datatype, 2> types{chunk, MPI_BYTE};
  MPI_Type_create_struct(2, counts.data(), places.data(), types.data(), &type_);
  MPI_Type_commit(&type_);
  MPI_Type_free(&chunk);
}

// MPI keeps the type until messages in transit are complete.
MpiExtent::~MpiExtent() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);
}

}  // namespace sotto
