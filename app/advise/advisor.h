#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/advise/advice.h"
#include "app/advise/measurements.h"

namespace sotto {

// How ranks share a host, which is like this machine.
struct Host {
  std::int64_t threads = 1;  // compute threads of each rank
  std::int64_t ranks = 1;

  static std::int64_t machine_cores();
  double cores() const { return static_cast<double>(machine_cores()) / static_cast<double>(ranks); }  // of each rank
};

struct Method {
  Recipe recipe;
  std::optional<Quality> quality{};  // nothing: unknown
};

// A codec that cannot be used, and why.
struct Refusal {
  std::string codec, reason;
};

struct Advice {
  MeasuredCompute compute;
  Host host;
  std::vector<Prediction> ranked;  // `none` is among them
  std::vector<Refusal> refused{};
};

// Predicts a step of the run with these choices, over its links, with each method in place of the run's codec. The
// first method must be `none`. This process computes with the threads that OpenMP gives it; they should be as many as a
// rank of the host has. `least`: the wanted quality, by which methods are ranked. Methods that cannot be used are
// listed as refused; ConfigError or NumericError if the first one, or the run itself, cannot be used.
Advice advise(const Choices& choices, std::span<const Method> methods, const Host& host, Quality least);

}  // namespace sotto
