#include "sotto/aggregate/vector_averager.h"

#include <fmt/format.h>

#include "sotto/core/floats.h"

namespace sotto {
namespace {

Layout layout_of_vector(std::size_t size) { return {{{"vector", 0, {static_cast<std::int64_t>(size)}}}, size}; }

}  // namespace

VectorAverager::VectorAverager(Communicator& communicator, std::size_t size, const Recipe& recipe,
                               VectorAveragerOptions options)
    : VectorAverager(communicator, layout_of_vector(size), recipe, std::move(options)) {}

VectorAverager::VectorAverager(Communicator& communicator, const Layout& layout, const Recipe& recipe,
                               VectorAveragerOptions options)
    : communicator_(communicator),
      size_(layout.size()),
      options_(std::move(options)),
      buckets_(plan_buckets(layout, std::numeric_limits<std::size_t>::max())),
      aggregator_(make_aggregator(recipe, buckets_, communicator, options_.pool)) {
  Hash mark;
  mark.add(recipe.text());
  mark.add(layout.hash());
  mark.add(options_.seed);
  mark_ = mark.value();
}

void VectorAverager::average(std::span<float> gradient, double learning_rate) {
  if (gradient.size() != size_) {
    throw std::invalid_argument("a vector of " + std::to_string(gradient.size()) + " elements, where one of " +
                                std::to_string(size_) + " is averaged");
  }
  if (error_) std::rethrow_exception(error_);
  try {
    step(gradient, learning_rate);
  } catch (const std::exception& error) {
    error_ = std::current_exception();
    communicator_.give_up(error.what());
    throw;
  }
}

void VectorAverager::meet() {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator_.size()));
  communicator_.all_gather(std::as_bytes(std::span(&mark_, 1)), std::as_writable_bytes(std::span(all)));
  const auto other = std::ranges::find_if(all, [this](std::uint64_t mark) { return mark != mark_; });
  if (other == all.end()) return;
  throw ConfigError(fmt::format("rank {} averages another vector than rank {}, or with another recipe or seed",
                                other - all.begin(), communicator_.rank()));
}

void VectorAverager::step(std::span<float> gradient, double learning_rate) {
  const PlainFloats floats;
  communicator_.at_step(step_);
  if (!std::exchange(met_, true)) meet();
  communicator_.require_same(mark_, "it averages another vector, or with another recipe or seed");
  const Key key{options_.seed, static_cast<std::uint16_t>(communicator_.rank()), 0, static_cast<std::uint32_t>(step_)};
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const BucketPlan& plan = buckets_[b];
    Bucket bucket{gradient.subspan(plan.range.begin, plan.range.size()), &plan.layout, static_cast<std::uint16_t>(b)};
    aggregator_->average(bucket, key, {step_, learning_rate}, communicator_, timings_);
  }
  ++step_;
}

void VectorAverager::visit_state(StateVisitor& visitor) {
  if (error_) std::rethrow_exception(error_);
  std::uint64_t step = step_;
  visitor.visit("step", step);
  aggregator_->visit_state(visitor);
  step_ = step;  // unless the state belongs to another vector
}

}  // namespace sotto
