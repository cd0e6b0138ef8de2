#pragma once

#include <cstddef>
#include <semaphore>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/core/timer.h"

namespace sotto {

// A stretch of a rank's own work, and the exchange that follows it.
struct TracedExchange {
  double work = 0;                                 // seconds
  std::vector<std::pair<int, std::size_t>> sends;  // peer and bytes of each message
  std::vector<int> receives;                       // the peer of each message
};

// What a rank did for a bucket: it worked and exchanged in turns, and worked at last.
struct Trace {
  std::vector<TracedExchange> exchanges;
  double rest = 0;  // seconds
};

// Among ranks that share a turn, only its holder works, and hence as fast as on a machine to itself. A rank that waits
// for others does not hold the turn.
using Turn = std::binary_semaphore;

// Records what this rank does between and in the exchanges of another communicator. The rank holds the turn as long as
// this lives.
class TracedCommunicator final : public Communicator {
 public:
  TracedCommunicator(Communicator& inner, Turn& turn);
  ~TracedCommunicator() override { turn_.release(); }

  std::string_view name() const override { return "traced"; }
  bool goes_in_rounds() const override { return inner_.goes_in_rounds(); }
  // What happened since the last call, or since this was made.
  Trace take();

 private:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override;
  std::unique_ptr<Communicator> do_clone() override;

  Communicator& inner_;
  Turn& turn_;
  Trace trace_;
  Timer working_;
};

}  // namespace sotto
