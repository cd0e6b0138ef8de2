#include "app/train/calendar.h"

#include <algorithm>
#include <utility>

namespace sotto {
namespace {

bool passes(std::uint64_t before, std::uint64_t done, std::uint64_t every) {
  return every > 0 && done / every > before / every;
}

}  // namespace

Calendar::Calendar(const TrainOptions& options, Course course, std::uint64_t steps)
    : eval_freq_(static_cast<std::uint64_t>(options.eval_freq.value_or(0))),
      checkpoint_every_(static_cast<std::uint64_t>(options.checkpoint_every)),
      check_replicas_(static_cast<std::uint64_t>(options.check_replicas)),
      course_(std::move(course)),
      steps_(steps) {}

Calendar::Due Calendar::due(std::uint64_t before, std::uint64_t done) const {
  const bool evaluation =
      eval_freq_ > 0 ? passes(before, done, eval_freq_) : course_.epoch_of(done) > course_.epoch_of(before);
  return {evaluation, passes(before, done, checkpoint_every_), passes(before, done, check_replicas_)};
}

bool Calendar::evaluates_after(std::uint64_t done) const {
  if (done == 0) return false;
  if (eval_freq_ == 0 && done * course_.size().accumulate <= course_.start().position) return false;
  return due(done - 1, done).evaluation;
}

std::uint64_t Calendar::next_meeting(std::uint64_t done) const {
  std::uint64_t next = steps_;
  for (const std::uint64_t every : {checkpoint_every_, eval_freq_}) {
    if (every > 0) next = std::min(next, (done / every + 1) * every);
  }
  if (eval_freq_ > 0) return next;
  return std::min(next, course_.first_step_in(course_.epoch_of(done) + 1));
}

std::uint64_t Calendar::step_of_meeting(std::uint64_t meeting, std::uint64_t made) const {
  if (made < meeting) return made;
  while (meeting < steps_ && next_meeting(meeting) <= made) meeting = next_meeting(meeting);
  return meeting;
}

}  // namespace sotto
