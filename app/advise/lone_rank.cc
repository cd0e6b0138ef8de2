#include "app/advise/lone_rank.h"

#include "app/train/options/buckets.h"
#include "app/train/options/optimiser.h"
#include "sotto/algorithm/compute.h"
#include "sotto/core/timer.h"

namespace sotto {

LoneRank::LoneRank(const Choices& choices, Task& task)
    : lr_(choices.optimiser.lr),
      replica_(task, make_optimiser(choices.optimiser, task.layout()), plan_buckets(task.layout(), choices.buckets),
               static_cast<std::uint64_t>(choices.options.accumulate), static_cast<std::uint64_t>(choices.options.seed),
               /*rank=*/0),
      overlap_(choices.options.overlap) {
  if (clips(choices.optimiser.clip, "before")) replica_.clip_gradients(choices.optimiser.clip);
}

ComputeTimes LoneRank::step(const std::function<void(std::size_t bucket)>& ready) {
  ComputeTimes times;
  Timer timer;
  replica_.optimiser().begin_step(step_);
  const auto finish = [&](std::size_t bucket) {
    offer_in_place(replica_, replica_.buckets()[bucket]);
    if (ready) ready(bucket);
    times.ready.push_back(timer.lap());
  };
  BucketCalls calls;
  if (overlap_) calls.ready = finish;
  replica_.compute_gradient(step_, calls);
  if (!overlap_) {
    for (std::size_t b = 0; b < replica_.buckets().size(); ++b) finish(b);
  }
  times.rest = timer.lap();
  replica_.optimiser().apply(replica_.parameters(), replica_.gradient(), 0, lr_);
  times.apply = timer.lap();
  ++step_;
  return times;
}

}  // namespace sotto
