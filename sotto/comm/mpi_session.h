#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "sotto/comm/patience.h"
#include "sotto/core/mutex.h"
#include "sotto/core/timer.h"

namespace sotto {

// MPI in this process, which the communicators share; and how ranks learn why another one failed. Any thread may call
// anything.
class MpiSession {
 public:
  // The standard's locks of it are none to the analysis: the functions that take them are not checked.
  class SOTTO_THREAD_SAFETY(capability("mutex")) SharedMutex : public std::shared_mutex {};

  // Starts MPI, or uses what the program started. ConfigError without MPI_THREAD_MULTIPLE.
  explicit MpiSession(std::chrono::milliseconds deadline);
  // Ends MPI when all ranks have come here; not after a failure: then the job is aborted when the process exits.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // To be held while MPI is called; without one MPI must not be called any more.
  std::shared_lock<SharedMutex> enter() SOTTO_UNCHECKED;
  // What failed before, on whichever thread.
  std::string failure() const SOTTO_UNCHECKED;

  // The same ranks as those of `group`, all of which call this in the same order; `group` may be MPI_COMM_WORLD.
  // CommError when they do not within the deadline.
  MPI_Comm duplicate(MPI_Comm group);
  void release(MPI_Comm& group);  // unless MPI is over

  // A rank that has failed and said so, or -1. Needs enter().
  int listen();
  std::string said(int rank);
  // Tells all others, once, that this rank fails because of `peer`, and asks who failed before: the peer may have given
  // up because of another one. Returns what the first of that chain said, if anybody did. Takes a second at most. Below
  // 0: this rank is the cause itself, and nobody is asked.
  std::string tell(int peer, const std::string& error);
  // From now on nobody in this process calls MPI: returns when nobody does any more.
  void fail(const std::string& error) SOTTO_UNCHECKED;
  // A message that is under way though nobody waits for it any more, and its memory: MPI is not ended before it is
  // complete.
  void keep(MPI_Request request, std::vector<std::byte> memory);

 private:
  static constexpr std::size_t longest_notice = 1000;  // below what any transport of MPI's sends at once
  struct Notice {
    int peer = -1;
    char text[longest_notice] = {};
  };
  bool finish(MPI_Request& request, Clock::time_point until);
  void end() SOTTO_UNCHECKED;  // nobody else is here any more
  void finalize();

  int rank_ = 0, size_ = 1;
  std::chrono::milliseconds deadline_;
  bool owner_ = false;  // MPI is ours to end
  int exceptions_ = 0;  // on their way when this was made
  MPI_Comm notices_ = MPI_COMM_NULL;
  Notice told_;
  std::atomic<bool> has_told_ = false;

  mutable SharedMutex use_;
  bool over_ SOTTO_GUARDED_BY(use_) = false;
  std::string error_ SOTTO_GUARDED_BY(use_);  // why it is over
  Mutex mutex_;
  std::vector<std::optional<Notice>> heard_ SOTTO_GUARDED_BY(mutex_);  // by rank
  struct Kept {
    MPI_Request request;
    std::vector<std::byte> memory;
  };
  std::unique_ptr<std::vector<Kept>> kept_ SOTTO_GUARDED_BY(mutex_) = std::make_unique<std::vector<Kept>>();
};

// "MPI_Irecv: MPI_ERR_TRUNCATE: message truncated"
std::string mpi_reason(const char* call, int code);

}  // namespace sotto
