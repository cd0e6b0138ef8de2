#pragma once

#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "sotto/core/timer.h"

namespace sotto {

// Where the ranks of a group listen (TcpDoor::place()), in a section of the store in which they met.
class TcpPlaces {
 public:
  explicit TcpPlaces(c10::intrusive_ptr<c10d::Store> section) : section_(std::move(section)) {}

  void leave(int rank, const std::string& place);
  // The place of that rank, or nothing if the rank has left none yet. CommError if the store does not answer by
  // `until`.
  std::optional<std::string> find(int rank, Clock::time_point until) const;

 private:
  c10::intrusive_ptr<c10d::Store> section_;
};

}  // namespace sotto
