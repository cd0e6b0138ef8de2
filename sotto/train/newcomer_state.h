#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/core/state.h"
#include "sotto/core/timer.h"

namespace sotto {

// Gives newcomers the state of rank `donor`, which is sent over the link of each rank once: the donor sends each chunk
// to the first newcomer, and each newcomer passes it on to the next one while it receives another. So it takes about as
// long as one rank needs to receive the state, however many newcomers there are. Collective: all ranks visit the same
// components, and then finish(). Other ranks keep their values, and wait; no operation fails because the state takes
// longer than the deadline.
class NewcomerState final : public StateVisitor {
 public:
  // Ranks; none is the donor.
  NewcomerState(Communicator& communicator, int donor, std::vector<int> newcomers);

  void visit(std::string_view /*name*/, std::vector<float>& values) override { send(values); }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& bytes) override { send(bytes); }
  void visit(std::string_view /*name*/, std::uint64_t& value) override { send(std::span(&value, 1)); }
  // A vector that has the same length on all ranks.
  template <class T>
  void send(std::span<T> values) {
    pass(std::as_writable_bytes(values));
  }
  void finish();

 private:
  template <class T>
  void send(std::vector<T>& values) {
    std::uint64_t size = values.size();
    send(std::span(&size, 1));
    if (place_ > 0) values.resize(size);
    send(std::span(values));
  }
  void pass(std::span<std::byte> bytes);
  void tell_others(std::byte word);

  Communicator& communicator_;
  int donor_;
  std::vector<int> newcomers_, others_;
  int place_ = -1;  // in the chain: 0 is the donor; -1: not in it
  Clock::time_point told_;
};

}  // namespace sotto
