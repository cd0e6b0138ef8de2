#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/train/record/evaluations.h"
#include "app/train/record/listener.h"
#include "app/train/record/progress.h"
#include "app/train/record/recorder.h"
#include "app/train/replica.h"
#include "app/train/session.h"
#include "app/train/trainer.h"

namespace sotto {

// Writes, prints and tells listeners about the steps and evaluations of a run. A FileError ends the run after a
// checkpoint (Interruption::attempt()), unless a comment says that it is thrown.
class RunLog {
 public:
  // Called before the ranks meet. `may_change`: the group of ranks may change.
  RunLog(Session& session, bool may_change);

  void say(const std::string& line, int rank = 0);   // printed on that rank
  void warn(const std::string& text, int rank = 0);  // unless it is empty
  void say_of_start();
  void say_reached();  // the target of `until`

  // The rows of each rank continue from its entry of `first_steps`. `continues`: the run continues after a change of
  // the group. Collective. FileError.
  void begin(std::span<const std::uint64_t> first_steps, bool continues);
  void begin_listeners(std::uint64_t first_step);  // FileError
  void open();                                     // steps.csv. FileError
  bool is_open() const { return recorder_.has_value(); }
  void flush();

  // What this rank's steps have used so far, over all starts, without evaluations and checkpoints.
  RunTotals totals() const;
  void take_up(const RunTotals& before) { before_ = before; }  // of earlier starts
  // Bytes that were sent until now belong to no row.
  void skip_traffic() { counted_ = traffic(); }

  // These run after a step, in this order: add_step() writes its row; tell() informs the listeners, with `before` as
  // tally() before the step; show() prints the progress after `done` steps.
  Tally tally() { return listeners_.empty() ? Tally() : session_.task().trained(); }
  void add_step(TrainedStep& row, const StepReport& report);
  void tell(TrainedStep& row, const Tally& before);
  void show(const StepRow& row, std::uint64_t done);
  void take_choice();  // keeps the aggregator's remark on its last choice, without printing it

  const Evaluations& evaluations() const { return evaluations_; }
  void show_evaluation(std::uint64_t done, std::uint64_t examples);
  // `spent`: totals() when the evaluation began. Collective.
  void add_evaluation(std::uint64_t done, const TestResult& tested, const RunTotals& spent);

  // Writes summary.json. `first`: this rank's first step in this start. Collective. FileError.
  void summarise(const TrainResult& result, const std::vector<std::uint64_t>& rank_steps, std::uint64_t first,
                 const TestResult& tested, bool diverged);
  // Runs if this start has no step to make. Adds the test to summary.json if a signal ended the run before its test.
  // FileError.
  void note_untrained(std::uint64_t done, const TestResult& tested);

 private:
  Traffic traffic() const;
  std::string reached_text() const;
  void announce_phase(std::uint64_t step);

  Session& session_;
  Progress progress_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Evaluations evaluations_;
  std::optional<Recorder> recorder_;
  RunTotals before_;    // what earlier starts used
  RunTotals steps_;     // used by the steps of this start
  Traffic counted_;     // already in rows, or excluded from them
  std::string remark_;  // the last remark on choices that was printed
};

}  // namespace sotto
