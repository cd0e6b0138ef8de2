#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/comm/deadline.h"
#include "sotto/core/dtype.h"
#include "sotto/core/timer.h"

namespace sotto {

class Mailbox;

// A message to a peer. The transport does not forward it before `not_before` (default: at once).
struct Send {
  int peer = 0;
  std::span<const std::byte> data;
  Clock::time_point not_before{};
};

// Reads the length of the message at the front of a buffer from the message itself.
using MessageLength = std::size_t (*)(std::span<const std::byte> buffer);

// Room for the next message from a peer. A shorter message lies at the front of it. Gloo does not report the length of
// a message; a message that may be shorter than its room therefore contains its length, which `length` reads. Without
// `length` the message counts as long as the room. Only traffic() and the time on an emulated link depend on the
// length. The exchange fills in `arrived`.
struct Recv {
  int peer = 0;
  std::span<std::byte> buffer;
  Clock::time_point arrived{};
  MessageLength length = nullptr;

  std::size_t received() const { return length == nullptr ? buffer.size() : std::min(length(buffer), buffer.size()); }
};

enum class ReduceOp : std::uint8_t { sum, min, max };

// into[i] = into[i] OP from[i], for elements of `type`. REQUIRES that both have the same length, a multiple of the
// element's size, and are aligned to it. Integers wrap. 16-bit floats are combined as floats and rounded to nearest,
// ties to even. NaN wins.
void reduce_into(std::span<std::byte> into, std::span<const std::byte> from, DType type, ReduceOp op);

// What this rank sent and received through the transport: payload bytes of messages, including those of collectives.
struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t messages_sent = 0;
  double seconds = 0;  // inside public calls
};

// A fixed group of ranks. Every public call is checked, counted and timed here, and ends within the deadline; a
// CommError names rank, peer, operation and step. Only one thread may use a communicator at a time; clone() makes one
// for another thread.
class Communicator {
 public:
  Communicator(int rank, int size, Deadline deadline);
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::milliseconds deadline() const { return call_deadline_; }       // of the last public call
  const Deadline& deadlines() const { return deadlines_; }                    // shared with clones and mailboxes
  void set_deadline(Deadline deadline) { deadlines_ = std::move(deadline); }  // clones and mailboxes keep theirs
  // The number of `rank` in the whole job, for errors. In a Subgroup a rank has another number.
  virtual int number(int rank) const { return rank; }
  virtual std::string_view name() const = 0;  // of the backend: "tcp", "gloo", "shaped"

  // All sends and receives are posted together, so that no order of calls can deadlock. Messages between a pair of
  // ranks stay in order. A rank cannot exchange with itself. Empty messages are delivered, too.
  void exchange(std::span<const Send> sends, std::span<Recv> recvs);

  // An exchange that all ranks make together: a peer receives what a rank sends within the same call. If
  // goes_in_rounds(), a rank with a long message to send goes in rounds: in each round it sends to one peer and
  // receives from one. Otherwise messages of many senders would queue at one receiver while other links are idle.
  void all_to_all(std::span<const Send> sends, std::span<Recv> recvs);
  virtual bool goes_in_rounds() const { return true; }

  // Element-wise over all ranks, in place. Every rank gets the same bits, with every backend, because these collectives
  // are made of exchanges. communicator.cc documents the order of each sum. Integers wrap; 16-bit floats are added as
  // floats and rounded after each addition; NaN wins min and max. `data` is aligned to its type.
  void all_reduce(std::span<std::byte> data, DType type, ReduceOp op);
  void all_reduce(std::span<float> data, ReduceOp op = ReduceOp::sum);
  void all_reduce(std::span<double> data, ReduceOp op = ReduceOp::sum);
  // Gathers `mine`, which has the same length on every rank, into `all` in rank order; all.size() == size() *
  // mine.size().
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);
  void broadcast(std::span<std::byte> data, int root);
  void barrier();

  // Makes a communicator of the same ranks, for another thread. Collective: every rank calls it in the same order.
  std::unique_ptr<Communicator> clone();

  // Opens a mailbox for messages of at most `max_bytes` between any two ranks. Collective, like clone(). CommError if a
  // rank has another `max_bytes`, ConfigError if the backend has no mailbox.
  std::unique_ptr<Mailbox> open_mailbox(std::size_t max_bytes);

  // This rank gives up because of `reason`. Operations of other ranks that need this rank fail: at once and with that
  // reason if the backend can tell them, otherwise at their deadline.
  virtual void give_up(const std::string& reason);

  // Sets a mark that all ranks must share from now on. If a peer's mark differs, the next message to or from it is an
  // error on both sides, with the text `otherwise` (a literal). Costs 8 bytes with that message, and no extra round, if
  // the backend supports it (tcp, and c10d but for NCCL); other backends do nothing.
  virtual void require_same(std::uint64_t mark, std::string_view otherwise);

  // Traffic so far; may be read while another thread is inside an operation.
  Traffic traffic() const {
    return {traffic_.bytes_sent, traffic_.bytes_received, traffic_.messages_sent, traffic_.seconds};
  }
  // The step that errors name from now on.
  void at_step(std::uint64_t step) { step_ = step; }
  // The bytes that this rank sends in an all_reduce of this many elements (for predictions).
  std::uint64_t all_reduce_bytes(std::size_t elements, DType type) const;

 protected:
  // Backends throw CommError through fail(), and fill in `arrived`.
  virtual void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) = 0;
  virtual std::unique_ptr<Communicator> do_clone() = 0;
  virtual std::unique_ptr<Mailbox> do_open_mailbox(std::size_t max_bytes);

  void hear_from_all();  // barrier() within another public call

  // "rank 2: exchange with rank 0 at step 17: REASON"; without the peer if it is below 0.
  std::string failure(std::string_view operation, int peer, std::string_view reason) const;
  [[noreturn]] void fail(std::string_view operation, int peer, std::string_view reason) const;
  std::string_view operation() const { return operation_; }  // the current public call
  std::uint64_t step() const { return step_; }
  struct Counters {
    std::atomic<std::uint64_t> bytes_sent = 0, bytes_received = 0, messages_sent = 0;
    std::atomic<double> seconds = 0;
  };
  Counters traffic_;

 private:
  class Call;
  void check_peers(std::span<const Send> sends, std::span<const Recv> recvs) const;
  void counted_exchange(std::span<const Send> sends, std::span<Recv> recvs);
  void exchange_in_rounds(std::span<const Send> sends, std::span<Recv> recvs);
  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all);
  void swap_with(int to, std::span<const std::byte> data, int from, std::span<std::byte> room);
  void reduce_directly(std::span<std::byte> data, DType type, ReduceOp op);
  void reduce_in_ring(std::span<std::byte> data, DType type, ReduceOp op);

  int rank_;
  int size_;
  Deadline deadlines_;
  std::chrono::milliseconds call_deadline_;
  std::uint64_t step_ = 0;
  std::string_view operation_;
  // Kept from call to call, so that collectives allocate nothing after the first.
  std::vector<Send> sends_, round_sends_;
  std::vector<Recv> recvs_, round_recvs_;
  std::vector<std::pair<int, std::size_t>> send_turns_, recv_turns_;  // the round and index of each message
  std::vector<std::byte> scratch_;
};

}  // namespace sotto
