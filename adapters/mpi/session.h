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

#include "sotto/comm/deadline.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {

// MPI in this process, shared by its communicators; also how ranks learn why another one failed. Any thread may call
// any function.
class MpiSession {
 public:
  // The thread-safety analysis does not know std::shared_lock, so the functions that use it are not checked.
  class SOTTO_THREAD_SAFETY(capability("mutex")) SharedMutex : public std::shared_mutex {};

  // Starts MPI, or uses it if the program started it. ConfigError without MPI_THREAD_MULTIPLE.
  explicit MpiSession(std::chrono::milliseconds deadline);
  // Ends MPI when all ranks have come here. After a failure it does not: the job is then aborted when the process
  // exits.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // The lock to hold while calling MPI; if it holds nothing, MPI must not be called any more.
  std::shared_lock<SharedMutex> enter() SOTTO_UNCHECKED;
  // Why this process failed before, on any thread.
  std::string failure() const SOTTO_UNCHECKED;

  // Duplicates the group; all its ranks call this in the same order. `group` may be MPI_COMM_WORLD. CommError if some
  // rank does not within the deadline.
  MPI_Comm duplicate(MPI_Comm group);
  void release(MPI_Comm& group);  // unless MPI is over

  // Returns a rank that has failed and reported it, or -1. REQUIRES enter().
  int listen();
  std::string said(int rank);
  // Tells all others, once, that this rank fails because of `peer`, and asks for the cause: the peer may have given up
  // because of another rank. Returns the report of the first rank in that chain, if any. Takes at most a second. `peer`
  // below 0: this rank itself is the cause, and asks nobody.
  std::string tell(int peer, const std::string& error);
  // Forbids MPI calls in this process; returns when no call is in progress.
  void fail(const std::string& error) SOTTO_UNCHECKED;
  // Keeps an abandoned message in transit and its memory: MPI is not ended before the message is complete.
  void keep(MPI_Request request, std::vector<std::byte> memory);

 private:
  static constexpr std::size_t longest_notice = 1000;  // short enough for every MPI transport to send at once
  struct Notice {
    int peer = -1;
    char text[longest_notice] = {};
  };
  bool finish(MPI_Request& request, Clock::time_point until);
  void end() SOTTO_UNCHECKED;  // REQUIRES that no other thread uses MPI
  void finalize();

  int rank_ = 0, size_ = 1;
  std::chrono::milliseconds deadline_;
  bool owner_ = false;  // this session ends MPI
  int exceptions_ = 0;  // exceptions in flight when this object was made
  MPI_Comm notices_ = MPI_COMM_NULL;
  Notice told_;
  std::atomic<bool> has_told_ = false;

  mutable SharedMutex use_;
  bool over_ SOTTO_GUARDED_BY(use_) = false;
  std::string error_ SOTTO_GUARDED_BY(use_);  // why MPI is over
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

// A number of bytes in the form that MPI needs: its counts are ints, so more than 1 GiB is one element of a special
// type. It may be destroyed when the call that uses it has returned.
class MpiExtent {
 public:
  explicit MpiExtent(std::size_t bytes);
  ~MpiExtent();
  MpiExtent(const MpiExtent&) = delete;
  MpiExtent& operator=(const MpiExtent&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  static constexpr int most = 1 << 30;
  int count_ = 1;
  MPI_Datatype type_ = MPI_BYTE;
};

// Makes a mailbox on a group that serves nothing else, and that the mailbox frees. Its one thread checks in turn
// whether a message has come from each peer, and whether sent messages were taken; the pauses grow while nothing
// happens.
//
// The tag of a message is its kind, and MPI knows its length, so there is no frame. One message to each peer is in
// transit at a time, by MPI_Issend: it counts as sent when the peer has started to receive it, which needs room there.
// So no messages pile up inside MPI.
std::unique_ptr<Mailbox> make_mpi_mailbox(std::shared_ptr<MpiSession> session, MPI_Comm group, std::size_t max_bytes,
                                          Deadline deadline);

}  // namespace sotto
