#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/comm/communicator.h"
#include "sotto/core/state.h"

namespace sotto {

// Gives newcomers the state of rank `from`. All ranks visit the same components with it; those that take nothing keep
// their values.
class BroadcastState final : public StateVisitor {
 public:
  BroadcastState(Communicator& communicator, int from, bool takes)
      : communicator_(communicator), from_(from), takes_(takes) {}

  void visit(std::string_view /*name*/, std::vector<float>& values) override { send(values); }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& bytes) override { send(bytes); }
  void visit(std::string_view /*name*/, std::uint64_t& value) override { send(std::span(&value, 1)); }

  // A vector that has the same length on all ranks.
  template <class T>
  void send(std::span<T> values) {
    if (takes_ || communicator_.rank() == from_) return pass(values);
    std::vector<T> ignored(values.size());
    pass(std::span(ignored));
  }

 private:
  template <class T>
  void send(std::vector<T>& values) {
    std::uint64_t size = values.size();
    pass(std::span(&size, 1));
    if (takes_) values.resize(size);
    if (takes_ || communicator_.rank() == from_) return pass(std::span(values));
    std::vector<T> ignored(size);
    pass(std::span(ignored));
  }
  template <class T>
  void pass(std::span<T> values) {
    communicator_.broadcast(std::as_writable_bytes(values), from_);
  }

  Communicator& communicator_;
  int from_;
  bool takes_;
};

}  // namespace sotto
