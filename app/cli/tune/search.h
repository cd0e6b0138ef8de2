#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/train/job.h"
#include "app/cli/tune/trials.h"
#include "app/launch/launcher.h"
#include "app/report/text_table.h"
#include "app/tune/plan.h"
#include "sotto/core/timer.h"

namespace sotto {

// Runs the trials of a search, round by round, several at a time, and shows how far they are.
class Search {
 public:
  // The record holds the trials, `seeds` for each contender; a round counts contenders. `jobs`: how many trials may run
  // at a time.
  Search(std::vector<Trial>& trials, std::size_t seeds, std::vector<Round> rounds, Scoring scoring,
         const TrialRecord& record, std::size_t jobs);

  // Runs the trials that are not done. A trial that diverged is done; one that ended in another error is tried again.
  // Returns 0, or the status of the first trial that ended in another error, or the status of a signal, which ends all
  // trials.
  int run();

  // The contenders, best first. Later rounds come before earlier ones; in a round, those that reached their target come
  // first, by fewest steps. Those that diverged or failed come last.
  std::vector<Contender> order() const;

  // Warnings of the trials that run() has started.
  const RunWarnings& warnings() const { return warnings_; }

 private:
  std::uint64_t steps_after(std::size_t round) const;
  void run_round(std::size_t round, const std::vector<std::size_t>& members);  // contenders
  void ended(std::size_t index, std::size_t round, const LaunchResult& result);
  void show(std::size_t index, std::string_view text);
  std::string so_far() const;
  std::string take_result(Trial& trial, std::size_t round);
  std::vector<std::size_t> ranked(std::span<const std::size_t> members, std::span<const double> scores) const;
  void append_in_order(bool sound, std::vector<Contender>& order) const;

  std::vector<Trial>& trials_;
  std::size_t seeds_;
  std::vector<Contender> contenders_;
  std::vector<Round> rounds_;
  Scoring scoring_;
  const TrialRecord& record_;
  std::size_t jobs_;
  Console console_;
  RunWarnings warnings_;
  std::map<std::size_t, std::string> running_;  // how far each trial is
  std::size_t pending_ = 0, ended_ = 0;         // trials of this round
  // Steps that trials make in this round and start; steps of all trials that have ended, or are to end.
  std::map<std::size_t, std::uint64_t> to_make_;
  std::uint64_t made_ = 0, left_ = 0;
  Timer since_;         // the beginning of the search, or of this start of it
  double seconds_ = 0;  // from there to the last end of a trial
  int status_ = 0;
  bool is_short_ = false;  // a training had fewer steps than a trial was to make
};

// The contenders in this order, with means and deviations over their seeds. Those that are not done are left out.
// `goal` is the metric of their task.
TextTable to_table(std::span<const Contender> order, std::span<const Dimension> space, const Scoring& scoring,
                   std::string_view goal);
// All contenders in this order.
std::string to_json(std::span<const Contender> order, std::span<const Dimension> space);
// "best: sotto train ..", and which contenders are as good, as far as the spread of seeds tells. REQUIRES that the
// first one is sound and has a score.
std::string best_text(std::span<const Contender> order, std::span<const Dimension> space, const Scoring& scoring);

}  // namespace sotto
