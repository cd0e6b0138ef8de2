#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/algorithm/ad_psgd/relay.h"
#include "sotto/algorithm/ad_psgd/roll.h"
#include "sotto/core/timer.h"

namespace sotto {

// The state that both threads of an Averager share, under its lock.
struct AveragerState {
  enum class State : std::uint8_t {
    resting,  // after a meeting, or before the first step: the caller has the model, and may change it
    at_work,  // this rank takes steps, and asks others for their models
    quiet,    // it asks nobody any more, and comes to a meeting once its last request is answered
    meeting,  // it has come to a meeting, and answers others until all have come, and a model that it answered early
    ending,   // as quiet; then its thread ends
    ended,    // it answers nobody any more
  };
  // This rank's model is on its way to a peer, and that peer's is still to come.
  struct Exchange {
    int peer;
    std::uint32_t number;
    Clock::time_point since;
  };

  std::vector<float> x;  // the model
  Roll roll;
  Relay relay;
  State state = State::resting;
  bool due = false;                            // a step caused a request
  bool counts = false;                         // a step wants to know the others' steps
  bool alone = false;                          // all peers that this rank asks have left
  bool woken = false;                          // a message to itself is on its way
  Roll::Await awaited = Roll::Await::nothing;  // what the thread of the steps waits for
  Clock::time_point awaited_since{};
  std::optional<Exchange> asked{};     // the request that is not answered yet
  std::optional<Exchange> answered{};  // the request that was answered before its model came
  std::uint64_t requests = 0, exchanges = 0, exchange_bytes = 0, notes = 0;
  Timings timings{};
  std::exception_ptr error{};  // of the averaging thread

  // Whether nothing may change the model.
  bool frozen() const {
    return state == State::ended || state == State::resting ||
           (state == State::meeting && roll.all_have(Roll::Await::meeting));
  }
};

}  // namespace sotto
