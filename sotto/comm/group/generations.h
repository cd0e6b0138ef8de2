#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/timer.h"

namespace sotto {

// What the others do when a rank fails: they continue without it, end, or first write a checkpoint together.
enum class OnFailure { go_on, stop, checkpoint };
OnFailure read_on_failure(std::string_view text);  // `continue`, `stop` or `checkpoint`; ConfigError for another text

// Which ranks are in a job whose group may change, and when it changes. A *generation* is a group of ranks that does
// not change. Every rank has an id, which it keeps. Its number in a generation is its place among the members' ids in
// ascending order.
//
// This class knows neither processes nor stores: the launcher or the coordinator tells it what the ranks do.
class Generations {
 public:
  // A generation has `least` to `most` ranks. The present generation has this number and these members. Without members
  // no generation has begun yet, and next() begins generation `number` + 1.
  Generations(std::size_t least, std::size_t most, std::uint64_t number = 0, std::vector<int> members = {},
              OnFailure on_failure = OnFailure::go_on);

  std::uint64_t number() const { return number_; }
  const std::vector<int>& members() const { return members_; }  // ascending; including those that have gone
  bool is_there(int id) const { return there_.contains(id); }
  std::vector<int> there() const;    // members that have not gone, and those that wait to be members
  std::vector<int> waiting() const;  // to be members

  void come(int id);  // a rank waits for the next generation
  // The rank was killed, hangs, or has ended in an error. `why` may be empty if the rank lost just before has the same
  // reason.
  void lose(int id, const std::string& why);
  void withdraw(int id, const std::string& why);  // the rank was asked to end, and the others continue
  void leave(int id);                             // the rank has come to the end of the run
  // A member has left its group, and waits for the next one. `moved`: the group began at a later step
  // than the one before it, so the run makes progress.
  void report(int id, std::string why, bool moved = false);

  // The job is to end. The members agree on that by themselves, and write a checkpoint. If they lose a member before,
  // the next generation writes the checkpoint, with all members that are left, however few.
  void stop(const std::string& why);

  // Since when some member has known that the group must change, or nothing.
  std::optional<Clock::time_point> changing() const { return changing_; }
  std::vector<int> awaited() const;     // members that have not reported
  bool wants_change() const;            // ranks wait, and the group may be larger
  bool over() const;                    // the last member has come to the end of the run
  bool ends() const { return ended_; }  // some member has

  // Begins the next generation if the group must change, no member is awaited, and there are enough ranks. Returns
  // whether it began. Members get a place before ranks that wait. Once a member has come to the end of the run, the
  // others finish the run, however few they are. After a failure that ends the job, the other members, however few, are
  // a generation that writes a checkpoint; with OnFailure::stop there is none.
  bool next();
  // Why the present generation began, such as which ranks were lost or have come.
  const std::string& reason() const { return reason_; }
  // Which ranks have failed, and why, if that ends the job. Empty otherwise.
  const std::string& failure() const { return failure_; }
  // Why the job should end though no rank was lost: its members lost each other again and again, and no group got to a
  // later step. Empty otherwise.
  const std::string& no_progress() const { return no_progress_; }

 private:
  enum class State { waits, runs, reported };

  std::vector<int> of(State state) const;
  bool remove_member(int id, const std::string& why);

  std::size_t least_, most_;
  std::uint64_t number_;
  std::vector<int> members_;
  OnFailure on_failure_;
  std::map<int, State> there_;
  bool ended_ = false;  // some rank has come to the end of the run
  bool saves_ = false;  // the present generation writes a checkpoint, and no other one trains
  std::optional<Clock::time_point> changing_;
  std::string lost_, reported_;  // which ranks, and why; what the first member reported
  bool moved_ = false;           // the present generation began after more steps than the one before it
  int without_progress_ = 0;     // generations with the same members, one after the other, that did not move
  std::string reason_, failure_, no_progress_;
};

}  // namespace sotto
