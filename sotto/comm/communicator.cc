#include "sotto/comm/communicator.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <iterator>

#include "sotto/comm/mailbox.h"

namespace sotto {
namespace {

// Vectors up to this size are summed in whole messages. Longer ones use a ring of 2(W-1) rounds that sends only
// 2(W-1)/W times the vector. The number of rounds dominates for small vectors, the bytes for large ones.
constexpr std::size_t direct_bytes = 16384;
// From this many ranks on, short vectors are summed by recursive doubling: log2 W rounds and messages per rank, instead
// of W-1 messages.
constexpr int doubling_ranks = 8;

// Recursive doubling, among a power of two of the ranks: in round k, each rank and the rank 2^k away exchange their
// sums, so each sum covers twice as many ranks. The `extra` other ranks first add their vectors to a neighbour's, and
// get the result last: these are the odd ranks among the first 2 * extra.
struct Doubling {
  explicit Doubling(int size)
      : members(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), extra(size - members) {}

  bool paired(int rank) const { return rank < 2 * extra; }
  bool is_member(int rank) const { return !paired(rank) || rank % 2 == 0; }
  int place_of(int rank) const { return paired(rank) ? rank / 2 : rank - extra; }
  int rank_at(int place) const { return place < extra ? 2 * place : place + extra; }
  // The number of messages that a rank sends.
  int messages(int rank) const {
    return is_member(rank) ? std::countr_zero(static_cast<unsigned>(members)) + (paired(rank) ? 1 : 0) : 1;
  }

  int members, extra;
};

// Range of part `index` of `elements` in the ring. Part sizes differ by at most one element.
std::pair<std::size_t, std::size_t> ring_part(std::size_t elements, int index, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const auto part = static_cast<std::size_t>(((index % size) + size) % size);
  return {elements * part / ranks, elements * (part + 1) / ranks};
}

std::size_t ring_part_size(std::size_t elements, int index, int size) {
  const auto [begin, end] = ring_part(elements, index, size);
  return end - begin;
}

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace

// Measures the time of a public call, and names it in errors.
class Communicator::Call {
 public:
  Call(Communicator& owner, std::string_view operation) : owner_(owner) {
    owner_.operation_ = operation;
    owner_.call_deadline_ = owner_.deadlines_.from_now();
  }
  ~Call() { owner_.traffic_.seconds += timer_.seconds(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  Communicator& owner_;
  Timer timer_;
};

Communicator::Communicator(int rank, int size, Deadline deadline)
    : rank_(rank), size_(size), deadlines_(std::move(deadline)), call_deadline_(deadlines_.least()) {
  require(size > 0 && rank >= 0 && rank < size, "Communicator: a rank is one of 0 .. size-1");
}

void Communicator::check_peers(std::span<const Send> sends, std::span<const Recv> recvs) const {
  const auto check = [this](int peer) {
    if (peer < 0 || peer >= size_ || peer == rank_) {
      throw std::logic_error(fmt::format("exchange: rank {} of {} has no peer {}", rank_, size_, peer));
    }
  };
  for (const Send& send : sends) check(send.peer);
  for (const Recv& recv : recvs) check(recv.peer);
}

void Communicator::exchange(std::span<const Send> sends, std::span<Recv> recvs) {
  check_peers(sends, recvs);
  const Call call(*this, "exchange");
  counted_exchange(sends, recvs);
}

// Messages from 256 KiB on are long: they take 21 ms at 100 Mbit/s, much more than the latency of a round.
void Communicator::all_to_all(std::span<const Send> sends, std::span<Recv> recvs) {
  constexpr std::size_t is_long = 256 << 10;
  check_peers(sends, recvs);
  const Call call(*this, "all_to_all");
  const auto long_one = [](const Send& send) { return send.data.size() >= is_long; };
  if (goes_in_rounds() && std::ranges::any_of(sends, long_one)) {
    exchange_in_rounds(sends, recvs);
  } else {
    counted_exchange(sends, recvs);
  }
}

// In round k, from 1 on, each rank r sends to r + k. A rank may go in rounds even if others send everything at once:
// round k of a rank needs only that others have reached their round k.
void Communicator::exchange_in_rounds(std::span<const Send> sends, std::span<Recv> recvs) {
  send_turns_.clear();
  recv_turns_.clear();
  for (std::size_t i = 0; i < sends.size(); ++i) send_turns_.emplace_back((sends[i].peer - rank_ + size_) % size_, i);
  for (std::size_t i = 0; i < recvs.size(); ++i) recv_turns_.emplace_back((rank_ - recvs[i].peer + size_) % size_, i);
  std::ranges::sort(send_turns_);
  std::ranges::sort(recv_turns_);
  auto send = send_turns_.begin();
  auto recv = recv_turns_.begin();
  for (int k = 1; k < size_; ++k) {
    round_sends_.clear();
    round_recvs_.clear();
    for (; send != send_turns_.end() && send->first == k; ++send) round_sends_.push_back(sends[send->second]);
    auto done = recv;
    for (; recv != recv_turns_.end() && recv->first == k; ++recv) round_recvs_.push_back(recvs[recv->second]);
    counted_exchange(round_sends_, round_recvs_);
    for (const Recv& received : round_recvs_) recvs[(done++)->second] = received;
  }
}

void Communicator::all_reduce(std::span<std::byte> data, DType type, ReduceOp op) {
  require(data.size() % size_of(type) == 0, "all_reduce: the data is no whole number of elements");
  require(reinterpret_cast<std::uintptr_t>(data.data()) % size_of(type) == 0, "all_reduce: the data is not aligned");
  const Call call(*this, "all_reduce");
  if (size_ == 1 || data.empty()) return;
  if (data.size() <= direct_bytes) {
    reduce_directly(data, type, op);
  } else {
    reduce_in_ring(data, type, op);
  }
}

void Communicator::all_reduce(std::span<float> data, ReduceOp op) {
  all_reduce(std::as_writable_bytes(data), DType::f32, op);
}

void Communicator::all_reduce(std::span<double> data, ReduceOp op) {
  all_reduce(std::as_writable_bytes(data), DType::f64, op);
}

void Communicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  require(all.size() == mine.size() * static_cast<std::size_t>(size_), "all_gather: `all` is size() times `mine`");
  const Call call(*this, "all_gather");
  if (mine.empty()) return;
  gather_all(mine, all);
}

// A binomial tree: in round k the 2^k ranks that have the data, counted from the root, send it to 2^k other ranks.
void Communicator::broadcast(std::span<std::byte> data, int root) {
  require(root >= 0 && root < size_, "broadcast: the root is one of 0 .. size-1");
  const Call call(*this, "broadcast");
  if (data.empty()) return;
  const int place = (rank_ + size_ - root) % size_;
  for (int have = 1; have < size_; have *= 2) {
    if (place < have && place + have < size_) {
      const Send send{(place + have + root) % size_, data};
      counted_exchange({&send, 1}, {});
    } else if (place >= have && place < 2 * have) {
      Recv recv{(place - have + root) % size_, data};
      counted_exchange({}, {&recv, 1});
    }
  }
}

void Communicator::barrier() {
  const Call call(*this, "barrier");
  hear_from_all();
}

// Dissemination: after round k every rank has heard, directly or indirectly, from the 2^(k+1)-1 ranks before it. The
// messages are empty.
void Communicator::hear_from_all() {
  for (int distance = 1; distance < size_; distance *= 2) {
    swap_with((rank_ + distance) % size_, {}, (rank_ + size_ - distance) % size_, {});
  }
}

std::unique_ptr<Communicator> Communicator::clone() {
  const Call call(*this, "clone");
  auto copy = do_clone();
  copy->at_step(step_);
  return copy;
}

std::unique_ptr<Mailbox> Communicator::open_mailbox(std::size_t max_bytes) {
  const std::uint64_t mine = max_bytes;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size_));
  all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  const Call call(*this, "open_mailbox");
  for (int peer = 0; peer < size_; ++peer) {
    const std::uint64_t theirs = all[static_cast<std::size_t>(peer)];
    if (theirs != mine) fail(operation(), peer, fmt::format("its messages may have {} bytes, ours {}", theirs, mine));
  }
  return do_open_mailbox(max_bytes);
}

std::unique_ptr<Mailbox> Communicator::do_open_mailbox(std::size_t /*max_bytes*/) {
  throw ConfigError(fmt::format("messages from anybody to anybody are not there for the backend {}", name()));
}

void Communicator::give_up(const std::string& /*reason*/) {}
void Communicator::require_same(std::uint64_t /*mark*/, std::string_view /*otherwise*/) {}

std::uint64_t Communicator::all_reduce_bytes(std::size_t elements, DType type) const {
  const std::size_t bytes = elements * size_of(type);
  if (bytes <= direct_bytes) {
    const int messages = size_ < doubling_ranks ? size_ - 1 : Doubling(size_).messages(rank_);
    return bytes * static_cast<std::size_t>(messages);
  }
  // Each half of the ring sends every part except one.
  const std::size_t kept = ring_part_size(elements, rank_ + 1, size_) + ring_part_size(elements, rank_ + 2, size_);
  return (2 * elements - kept) * size_of(type);
}

// With few ranks, each sends its vector to all others and computes x_0 + x_1 + ... + x_(W-1), in this order. With many
// ranks, sums follow a balanced tree over the ranks: (x_0 + x_1) + (x_2 + x_3) ..., always with the sum of lower ranks
// first.
void Communicator::reduce_directly(std::span<std::byte> data, DType type, ReduceOp op) {
  const std::size_t length = data.size();
  if (size_ >= doubling_ranks) {
    const Doubling doubling(size_);
    scratch_.resize(std::max(scratch_.size(), length));
    const std::span<std::byte> other(scratch_.data(), length);
    const auto send_to = [&](int peer) {
      const Send send{peer, data};
      counted_exchange({&send, 1}, {});
    };
    const auto receive_from = [&](int peer, std::span<std::byte> room) {
      Recv recv{peer, room};
      counted_exchange({}, {&recv, 1});
    };
    if (!doubling.is_member(rank_)) {
      send_to(rank_ - 1);
      return receive_from(rank_ - 1, data);
    }
    if (doubling.paired(rank_)) {
      receive_from(rank_ + 1, other);
      reduce_into(data, other, type, op);
    }
    const int place = doubling.place_of(rank_);
    for (int distance = 1; distance < doubling.members; distance *= 2) {
      const int peer = doubling.rank_at(place ^ distance);
      swap_with(peer, data, peer, other);
      if (peer > rank_) {
        reduce_into(data, other, type, op);
      } else {
        reduce_into(other, data, type, op);
        std::memcpy(data.data(), other.data(), length);
      }
    }
    if (doubling.paired(rank_)) send_to(rank_ + 1);
    return;
  }
  scratch_.resize(std::max(scratch_.size(), length * static_cast<std::size_t>(size_)));
  const std::span<std::byte> all(scratch_.data(), length * static_cast<std::size_t>(size_));
  gather_all(data, all);
  std::memcpy(data.data(), all.data(), length);
  for (std::size_t at = length; at < all.size(); at += length) reduce_into(data, all.subspan(at, length), type, op);
}

// Part p starts at rank p and is passed from rank to rank; each rank adds its values: ((x_p + x_(p+1)) + x_(p+2)) +
// ..., indices modulo W. Then rank p-1 has the sum, and the sums are passed around the ring.
void Communicator::reduce_in_ring(std::span<std::byte> data, DType type, ReduceOp op) {
  const std::size_t element = size_of(type);
  const auto part = [&](int index) {
    const auto [begin, end] = ring_part(data.size() / element, index, size_);
    return data.subspan(begin * element, (end - begin) * element);
  };
  const int next = (rank_ + 1) % size_;
  const int previous = (rank_ + size_ - 1) % size_;
  scratch_.resize(std::max(scratch_.size(), data.size() / static_cast<std::size_t>(size_) + element));
  for (int round = 0; round + 1 < size_; ++round) {
    const auto mine = part(rank_ - round - 1);
    const std::span<std::byte> room(scratch_.data(), mine.size());
    swap_with(next, part(rank_ - round), previous, room);
    reduce_into(mine, room, type, op);
  }
  for (int round = 0; round + 1 < size_; ++round) {
    swap_with(next, part(rank_ + 1 - round), previous, part(rank_ - round));
  }
}

// Few ranks send their block to all others in one round: to rank+1 first, then to rank+2, ..., so that at any time all
// ranks send to different ones. Many ranks double what they have in each round (Bruck et al., 1997), which takes log2 W
// messages with the same number of bytes in all. Until the end, block i of `all` then belongs to rank (rank + i) mod W.
void Communicator::gather_all(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::size_t block = mine.size();
  if (size_ >= doubling_ranks) {
    std::memmove(all.data(), mine.data(), block);
    for (int have = 1; have < size_; have *= 2) {
      const std::size_t bytes = static_cast<std::size_t>(std::min(have, size_ - have)) * block;
      swap_with((rank_ + size_ - have) % size_, all.first(bytes), (rank_ + have) % size_,
                all.subspan(static_cast<std::size_t>(have) * block, bytes));
    }
    std::rotate(all.begin(), all.end() - static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank_) * block),
                all.end());
    return;
  }
  std::memmove(all.subspan(static_cast<std::size_t>(rank_) * block).data(), mine.data(), block);
  sends_.clear();
  recvs_.clear();
  for (int i = 1; i < size_; ++i) {
    const int from = (rank_ + size_ - i) % size_;
    sends_.push_back({(rank_ + i) % size_, mine});
    recvs_.push_back({from, all.subspan(static_cast<std::size_t>(from) * block, block)});
  }
  counted_exchange(sends_, recvs_);
}

void Communicator::swap_with(int to, std::span<const std::byte> data, int from, std::span<std::byte> room) {
  const Send send{to, data};
  Recv recv{from, room};
  counted_exchange({&send, 1}, {&recv, 1});
}

void Communicator::counted_exchange(std::span<const Send> sends, std::span<Recv> recvs) {
  if (sends.empty() && recvs.empty()) return;
  do_exchange(sends, recvs);
  for (const Send& send : sends) traffic_.bytes_sent += send.data.size();
  for (const Recv& recv : recvs) traffic_.bytes_received += recv.received();
  traffic_.messages_sent += sends.size();
}

std::string Communicator::failure(std::string_view operation, int peer, std::string_view reason) const {
  const std::string with = peer < 0 ? "" : fmt::format(" with rank {}", peer);
  return fmt::format("rank {}: {}{} at step {}: {}", rank_, operation, with, step_, reason);
}

void Communicator::fail(std::string_view operation, int peer, std::string_view reason) const {
  throw CommError(failure(operation, peer, reason));
}

}  // namespace sotto
