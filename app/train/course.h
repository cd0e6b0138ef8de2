#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/task/task.h"
#include "sotto/core/epoch_length.h"

namespace sotto {

// How many examples a step has: `accumulate` batches on each rank. None is 0.
struct StepSize {
  std::uint64_t ranks = 1, batch = 1, accumulate = 1;
  bool operator==(const StepSize&) const = default;
};

// Maps the steps of a run to places in its data and its schedules, also after the number of ranks has changed. Steps go
// on counting. An epoch is every example once, whichever rank reads it. Schedules count in steps of the first start, so
// a rate belongs to the same place in the data whatever the number of ranks. Checkpoints hold this.
class Course {
 public:
  // The course of a new run.
  Course(const Epochs& epochs, const StepSize& size);

  const StepSize& size() const { return size_; }
  ReadingStart start() const { return {epochs_.first, epochs_.epoch, read_}; }

  std::uint64_t epoch_of(std::uint64_t step) const { return epochs_.at(step * size_.accumulate).epoch; }
  double epochs_at(std::uint64_t step) const;
  // The first step that begins in this epoch or later, and the number of steps that are complete before the epoch.
  std::uint64_t first_step_in(std::uint64_t epoch) const;
  std::uint64_t steps_before(std::uint64_t epoch) const { return epochs_.begin_of(epoch) / size_.accumulate; }

  // Schedules count in steps of the first start. These are the length of an epoch in them, and the one that it would
  // make at the place in the data where `step` is.
  EpochLength scheduled_epoch() const { return {batches_, accumulate_}; }
  std::uint64_t scheduled_step(std::uint64_t step) const { return batches_at(step) / accumulate_; }

  // The course from `step` on, with steps of another size. It is complete only after set_epochs() with the epochs of a
  // task that continues from start().
  Course changed(std::uint64_t step, const StepSize& size) const;
  void set_epochs(const Epochs& epochs) { epochs_ = epochs; }

  std::string text() const;
  // FileError if it is no course.
  static Course of_text(std::string_view text);

 private:
  Course() = default;
  std::uint64_t batches_at(std::uint64_t step) const;

  std::uint64_t batches_ = 1, accumulate_ = 1;  // of the first start
  StepSize size_;
  Epochs epochs_;
  std::uint64_t made_ = 0;     // batches of epochs_.epoch read earlier, in batches of the first start
  std::vector<Reading> read_;  // what was read of epochs_.epoch before
};

}  // namespace sotto
