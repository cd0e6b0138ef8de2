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

// Runs the trials of a search round by round, several at a time, and shows their progress.
class Search {
 public:
  // `seeds`: the trials of each contender. `rounds`: their sizes count contenders. `jobs`: how many trials may run at a
  // time. `record` is written whenever a trial ends.
  Search(std::vector<Trial>& trials, std::size_t seeds, std::vector<Round> rounds, Scoring scoring,
         const TrialRecord& record, std::size_t jobs);

  // Runs the trials that are not done. A trial that diverged is done; one that ended in another error is tried again.
  // Returns 0, or the status of the first trial that ended in another error. A signal ends all trials; its status is
  // returned.
  int run();

  // The contenders, best first. A contender that came to a later round is better. Within a round, those that reached
  // their target come first, by fewest steps. Contenders that diverged or failed come last of all.
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
  std::map<std::size_t, std::string> running_;  // the progress of each running trial
  std::size_t pending_ = 0, ended_ = 0;         // trials of this round
  // The steps that each trial makes in this start; the steps that are made, and that are left, for all trials together.
  std::map<std::size_t, std::uint64_t> to_make_;
  std::uint64_t made_ = 0, left_ = 0;
  Timer since_;         // since the beginning of this start
  double seconds_ = 0;  // from then to the last end of a trial
  int status_ = 0;
  bool is_short_ = false;  // a training has fewer steps than a trial should make
};

// A row for each contender that is done, in this order, with means and deviations over the seeds. `goal` is the metric
// of their task.
TextTable to_table(std::span<const Contender> order, std::span<const Dimension> space, const Scoring& scoring,
                   std::string_view goal);
// All contenders in this order.
std::string to_json(std::span<const Contender> order, std::span<const Dimension> space);
// "best: sotto train ..", and the contenders that are as good, as far as the spread of seeds tells. REQUIRES that the
// first one is sound and has a score.
std::string best_text(std::span<const Contender> order, std::span<const Dimension> space, const Scoring& scoring);

}  // namespace sotto
