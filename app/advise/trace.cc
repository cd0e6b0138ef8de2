#include "app/advise/trace.h"

#include <stdexcept>

namespace sotto {

TracedCommunicator::TracedCommunicator(Communicator& inner, Turn& turn)
    : Communicator(inner.rank(), inner.size(), inner.deadlines()), inner_(inner), turn_(turn) {
  turn_.acquire();
  working_.lap();
}

Trace TracedCommunicator::take() {
  trace_.rest = working_.seconds();
  Trace done = std::exchange(trace_, {});
  working_.lap();
  return done;
}

void TracedCommunicator::do_exchange(std::span<const Send> sends, std::span<Recv> recvs) {
  // Takes the turn back also if the exchange fails.
  struct Pause {
    explicit Pause(Turn& turn) : turn_(turn) { turn_.release(); }
    ~Pause() { turn_.acquire(); }
    Turn& turn_;
  };
  TracedExchange& traced = trace_.exchanges.emplace_back();
  traced.work = working_.seconds();
  for (const Send& send : sends) traced.sends.emplace_back(send.peer, send.data.size());
  for (const Recv& recv : recvs) traced.receives.push_back(recv.peer);
  {
    const Pause pause(turn_);
    inner_.at_step(step());
    inner_.exchange(sends, recvs);
  }
  working_.lap();
}

std::unique_ptr<Communicator> TracedCommunicator::do_clone() {
  throw std::logic_error("a traced communicator has no clones");
}

}  // namespace sotto
