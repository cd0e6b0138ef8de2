#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {

// How long an operation waits for a peer: the user's deadline, or ten steps of this rank if they take longer, since
// another rank may be ten times as slow. Steps are measured from the first lap() on. Copies share the measured times.
class Deadline {
 public:
  // Longer deadlines are cut to this one: they would overflow when they are added to the time of a clock.
  static constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365 * 10);
  static constexpr int slower = 10;

  template <class Rep, class Period>
  Deadline(std::chrono::duration<Rep, Period> least)
      : least_(std::min(std::chrono::duration_cast<std::chrono::milliseconds>(least), longest)) {}

  // Called after each step that ends in an exchange: the next one will take about as long.
  void lap() const;

  std::chrono::milliseconds least() const { return least_; }
  std::chrono::milliseconds last_lap() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(measured_->last.load());
  }
  // For an operation that begins now. The present step counts, too: it may be longer than the last one.
  std::chrono::milliseconds from_now() const;
  // For a thread that checks again and again how long a peer has been silent. The present step does not count: it grows
  // from one check to the next.
  std::chrono::milliseconds by_last_lap() const { return of(last_lap()); }

 private:
  std::chrono::milliseconds of(Clock::duration lap) const;

  struct Measured {
    std::atomic<Clock::time_point> since{};
    std::atomic<Clock::duration> last{};
  };
  std::chrono::milliseconds least_;
  std::shared_ptr<Measured> measured_ = std::make_shared<Measured>();
};

// Waits a moment between two polls. The pauses grow while nothing happens, since ranks may share cores, and a server
// may have a thousand clients.
class Patience {
 public:
  explicit Patience(Clock::duration longest = std::chrono::microseconds(200)) : longest_(longest) {}
  void progress() { since_ = Clock::now(); }
  bool is_long() const { return long_; }  // nothing has happened for long: time to check slower things
  Clock::duration moment();               // the time to wait now; zero: only yields
  void pause(Clock::time_point wake);     // waits for a moment, but not beyond `wake`

 private:
  Clock::duration longest_;
  Clock::time_point since_ = Clock::now();
  bool long_ = false;
};

// Called now and then while a rank waits for the others to come. Returns the number of a signal that asks this process
// to end, or 0; once it is not 0, it does not change. An empty function means that there is none.
using Stop = std::function<int()>;

// A signal came while this rank waited for the others, before there was any work to finish. Exit status 128 + signal.
class Stopped final : public CommError {
 public:
  Stopped(const std::string& what, int signal) : CommError(what), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

inline void throw_if_stopped(const Stop& stop, const std::string& what = "stopped") {
  if (const int signal = stop ? stop() : 0; signal != 0) throw Stopped(what, signal);
}

}  // namespace sotto
