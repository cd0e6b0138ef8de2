#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sotto/comm/group/meeting.h"
#include "sotto/core/timer.h"

namespace sotto {

// Where the ranks of a group listen (TcpDoor::place()), in a section of the store in which they met.
class TcpPlaces {
 public:
  TcpPlaces(std::shared_ptr<const Meeting> meeting, const std::string& section)
      : meeting_(std::move(meeting)), section_(meeting_->section(section)) {}

  void leave(int rank, const std::string& place);
  // The place of that rank, or nothing if the rank has left none yet. CommError if the store does not answer by
  // `until`, or the rank has ended before it could leave any.
  std::optional<std::string> find(int rank, Clock::time_point until) const;

 private:
  std::shared_ptr<const Meeting> meeting_;
  StorePtr section_;
};

}  // namespace sotto
