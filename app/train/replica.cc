#include "app/train/replica.h"

#include <cmath>
#include <cstring>
#include <thread>

#include "app/train/options/choices.h"

namespace sotto {

void Slowdown::begin(Clock::time_point now) {
  begin_ = now;
  slept_ = waited_ = {};
}

Clock::time_point Slowdown::until(Clock::time_point now) const {
  const std::chrono::duration<double> computed = now - begin_ - slept_ - waited_;
  const std::chrono::duration<double> wanted(computed.count() * factor_ + delay_);
  return begin_ + waited_ + std::chrono::ceil<Clock::duration>(wanted);
}

void Slowdown::hold() {
  if (factor_ == 1 && delay_ == 0) return;
  const auto now = Clock::now();
  std::this_thread::sleep_until(until(now));
  slept_ += Clock::now() - now;
}

Replica::Replica(Task& task, std::unique_ptr<Optimiser> optimiser, std::vector<BucketPlan> buckets,
                 std::uint64_t accumulate, std::uint64_t seed, int rank)
    : task_(task),
      optimiser_(std::move(optimiser)),
      buckets_(std::move(buckets)),
      buckets_of_(task.layout().segments().size()),
      accumulate_(accumulate),
      seed_(seed),
      rank_(rank),
      needed_(buckets_.size()),
      missing_(buckets_.size()),
      first_passes_{.needed = [this](std::size_t segment) { segment_needed(segment); }, .ready = {}},
      last_pass_{.needed = first_passes_.needed, .ready = [this](std::size_t segment) { segment_ready(segment); }} {
  require_whole_tensors(*optimiser_, task.layout(), buckets_);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t s = buckets_[b].first; s < buckets_[b].last; ++s) {
      if (buckets_of_[s].size() == 0) buckets_of_[s].begin = b;
      buckets_of_[s].end = b + 1;
    }
  }
}

void Replica::scale_loss(const LossScaleOptions& options) {
  scale_ = std::make_unique<LossScale>(options);
  optimiser_ = std::make_unique<Skipping>(std::move(optimiser_), *scale_);
}

std::span<const float> Replica::to_evaluate() {
  const std::span<const float> mean = optimiser_->to_evaluate();
  return !mean.empty() && scale_ && scale_->taken() == 0 ? std::span<const float>(task_.parameters()) : mean;
}

double Replica::compute_gradient(std::uint64_t step, const BucketCalls& calls) {
  slowdown_.begin();
  std::ranges::fill(needed_, char{false});
  for (std::size_t b = 0; b < buckets_.size(); ++b) missing_[b] = buckets_[b].last - buckets_[b].first;
  next_ = 0;
  calls_ = &calls;
  data_seconds_ = 0;
  if (scale_) {
    old_buffers_.assign(task_.buffers().begin(), task_.buffers().end());
    old_trained_ = task_.trained();
  }

  double loss = 0;
  const float scale = scale_ ? scale_->value() : 1;
  for (std::uint64_t micro = 0; micro < accumulate_; ++micro) {
    const std::uint64_t position = step * accumulate_ + micro;
    const ElementStream dropout =
        element_stream(seed_, Purpose::dropout, static_cast<std::uint32_t>(rank_), position, 0);
    const std::uint64_t random = (static_cast<std::uint64_t>(dropout.k1) << 32) | dropout.k0;
    const bool last = micro + 1 == accumulate_;
    loss += task_.accumulate_gradient(position, scale / static_cast<float>(accumulate_), random,
                                      last ? last_pass_ : first_passes_) /
            static_cast<double>(accumulate_);
    data_seconds_ += task_.data_seconds();
  }
  if (scale_) {
    unscale(step, loss);
  } else if (!std::isfinite(loss)) {
    throw NumericError("rank " + std::to_string(rank_) + ": loss is " + std::to_string(loss) + " at step " +
                       std::to_string(step) + "; a smaller learning rate or a schedule with warmup may help");
  }
  if (clips_at_once()) {
    need_all();
    clip(clip_, task_.gradient());
  }
  while (next_ < buckets_.size()) report_next();
  copy_ = {};
  return loss;
}

void Replica::visit_state(StateVisitor& visitor) {
  optimiser_->visit_state(visitor);
  if (plateau_ != nullptr) {
    ScopedState own(visitor, "plateau");
    plateau_->visit_state(own);
  }
}

void Replica::visit_trained(StateVisitor& visitor) {
  Tally& trained = task_.trained();
  const std::size_t size = trained.size() * sizeof(double);
  std::vector<std::uint8_t> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), trained.data(), size);
  visitor.visit("task/trained", bytes);
  if (size > 0) std::memcpy(trained.data(), bytes.data(), size);
}

void Replica::segment_needed(std::size_t segment) {
  for (std::size_t b = buckets_of_[segment].begin; b < buckets_of_[segment].end; ++b) bucket_needed(b);
}

// Runs before parameters of the bucket are first used: with sync(priority=need), the mean of the last step may be on
// its way until then. Also sets the bucket's gradient to zero, since forward needs a bucket before backward adds to its
// gradient.
void Replica::bucket_needed(std::size_t bucket) {
  if (std::exchange(needed_[bucket], char{true})) return;
  const auto asked = Clock::now();
  calls_->needed(bucket);
  slowdown_.waited(Clock::now() - asked);
  const Range range = buckets_[bucket].range;
  std::ranges::fill(task_.gradient().subspan(range.begin, range.size()), 0.0F);
}

// Parameters that forward did not use get a zero gradient.
void Replica::need_all() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) bucket_needed(b);
}

// Divides the gradient by the scale, and asks whether the step is void. A void step gets a gradient of zero, and the
// old buffers and tally.
void Replica::unscale(std::uint64_t step, double loss) {
  need_all();
  const bool finite = scale_->unscale(task_.gradient());
  slowdown_.hold();
  const auto asked = Clock::now();
  const bool is_void = calls_->is_void(!finite || !std::isfinite(loss));
  slowdown_.waited(Clock::now() - asked);
  if (is_void) {
    std::ranges::fill(task_.gradient(), 0.0F);
    std::ranges::copy(old_buffers_, task_.buffers().begin());
    task_.trained() = old_trained_;
  }
  scale_->end_step(is_void);
  if (!scale_->is_spent()) return;
  throw NumericError("rank " + std::to_string(rank_) + ": gradients overflow float16 at step " + std::to_string(step) +
                     " though the loss, " + std::to_string(loss) +
                     ", is scaled no more; bfloat16, a smaller learning rate or a schedule with warmup may help");
}

void Replica::segment_ready(std::size_t segment) {
  for (std::size_t b = buckets_of_[segment].begin; b < buckets_of_[segment].end; ++b) --missing_[b];
  while (!holds_buckets() && next_ < buckets_.size() && missing_[next_] == 0) report_next();
}

void Replica::report_next() {
  if (next_ == 0) need_all();
  slowdown_.hold();
  const Range range = buckets_[next_].range;
  const auto gradient = task_.gradient().subspan(range.begin, range.size());
  if (!clips_at_once()) clip(clip_, gradient);
  if (!copy_.empty()) std::ranges::copy(gradient, copy_.subspan(range.begin, range.size()).begin());
  calls_->ready(next_++);
}

}  // namespace sotto
