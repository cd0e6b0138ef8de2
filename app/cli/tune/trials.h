#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/report/run_group.h"
#include "app/task/metric.h"
#include "app/train/options/options.h"
#include "app/tune/plan.h"

namespace sotto {

// One training of a search, in its own run folder.
struct Trial {
  Point point;
  std::string name;                        // "lr=0.5, codec=none", with the seed if there are several
  std::string folder;                      // its run folder
  TrainOptions options;                    // of the whole training; a trial makes its first steps
  std::vector<double> scores;              // one for each round that it has ended
  std::optional<std::uint64_t> reached{};  // the step at which it reached its target, if it did
  std::string error;                       // why it ended in an error
  bool diverged = false;                   // that error is a loss, gradient or parameter that is not finite
};

// How trials are judged that do not reach a target: by the training loss, or by a metric of the last test.
struct Scoring {
  std::optional<Metric> metric;

  bool rises() const { return metric && metric->rises; }
  std::string label() const;
  std::string text(double score) const;
};

// A contender of a search: the trials of one point, which differ in their seed alone.
class Contender {
 public:
  explicit Contender(std::span<const Trial> trials) : trials_(trials) {}  // REQUIRES one

  std::span<const Trial> trials() const { return trials_; }
  std::size_t rounds() const;                        // the number of rounds that all of its trials have ended
  bool is_sound() const { return error().empty(); }  // none has diverged or failed
  bool is_done() const;                              // each trial has a score or an error
  bool diverged() const;                             // whether one of them has
  std::string error() const;                         // of the first trial that has one
  Spread score(std::size_t round) const;             // of that round, from 0 on; REQUIRES that all have ended it
  // How many trials did not reach the target, and the mean number of steps in which the others reached it. Smaller is
  // better.
  std::pair<std::size_t, double> lateness() const;

 private:
  std::span<const Trial> trials_;
};

// The contenders of a search. `seeds`: how many trials each has, one after another.
std::vector<Contender> contenders_of(std::span<const Trial> trials, std::size_t seeds);

// The score and the cost of a run.
struct TrialResult {
  double score = 0;                        // not finite: it diverged
  std::optional<std::uint64_t> reached{};  // as Trial::reached
  std::uint64_t steps = 0;
  Metric goal;                     // of its task
  std::optional<double> tested{};  // its value on the test examples
  double bytes_per_step = 0, seconds = 0;
};

// Reads a run that has ended. Its training loss is the mean over the ranks, and over the last tenth of its steps. Steps
// that are left out because a gradient overflowed do not count.
TrialResult read_result(const Trial& trial, const Scoring& scoring);

// The record of a search, tune.json in its folder: its plan, and the results of its trials.
class TrialRecord {
 public:
  // `plan`: by name, everything that decides which trials there are and how they are judged.
  TrialRecord(std::string folder, Settings plan, std::span<const Dimension> space);

  // Fills in the results that an earlier start of the same search has recorded, except of trials whose folder was
  // removed. Returns whether there was an earlier start. ConfigError if the folder holds another search, or anything
  // else. FileError if the record is damaged.
  bool take_up(std::vector<Trial>& trials) const;
  void write(std::span<const Trial> trials) const;

 private:
  std::string path() const { return folder_ + "/tune.json"; }

  std::string folder_;
  Settings plan_;
  std::span<const Dimension> space_;
};

}  // namespace sotto
