#include "sotto/capi/posted_averager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sotto/capi/host_tensor.h"

namespace sotto {

PostedAverager::PostedAverager(std::vector<Parameter> parameters, AveragerOptions options,
                               std::shared_ptr<Communicator> communicator)
    : averager_(std::move(parameters), std::move(options), std::move(communicator)),
      places_(averager_.size()),
      finished_([this](std::size_t parameter) { give_back(parameter); }) {}

PostedAverager::~PostedAverager() {
  thread_.post([this] {
    if (!unfinished_.empty()) fail_here(std::make_exception_ptr(ConfigError("the averager ended within a step")));
  });
}

GradientAverager& PostedAverager::idle() const {
  thread_.wait();
  return averager_;
}

void PostedAverager::begin(double loss_scale, std::optional<std::uint64_t> replica) {
  thread_.post([=, this] { attempt([=, this] { start_step(loss_scale, replica); }); });
}

void PostedAverager::post(PostedBucket& bucket) {
  thread_.post([this, bucket = &bucket] {
    bucket->missing_ = bucket->pieces.size();
    unfinished_.push_back(bucket);
    attempt([=, this] { receive(*bucket); });
  });
}

void PostedAverager::end() {
  thread_.post([this] { attempt([this] { check_complete(); }); });
}

void PostedAverager::wait() {
  thread_.wait();
  if (error_) std::rethrow_exception(error_);
}

void PostedAverager::fail(std::exception_ptr error) {
  thread_.post([this, error = std::move(error)] { fail_here(error); });
}

void PostedAverager::attempt(const std::function<void()>& work) {
  if (error_) return fail_here(error_);
  try {
    work();
  } catch (const std::exception&) {
    fail_here(std::current_exception());
  }
}

void PostedAverager::fail_here(const std::exception_ptr& error) {
  if (!error_) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& thrown) {
      averager_.communicator().give_up(thrown.what());
    }
    error_ = error;
  }
  for (PostedBucket* bucket : std::exchange(unfinished_, {})) bucket->finish(error_);
}

void PostedAverager::start_step(double loss_scale, std::optional<std::uint64_t> replica) {
  const auto abandoned = std::make_exception_ptr(ConfigError("another step began before this one had ended"));
  for (PostedBucket* bucket : std::exchange(unfinished_, {})) bucket->finish(abandoned);
  std::ranges::fill(places_, Place());
  averager_.start_step(loss_scale);
  begun_ = true;
  if (!replica) return;
  if (const int other = first_to_differ(averager_.communicator(), *replica); other >= 0) {
    throw NumericError(
        fmt::format("rank {} has other parameters than rank 0 at the start of step {}", other, averager_.step()));
  }
}

void PostedAverager::receive(PostedBucket& bucket) {
  if (!begun_) throw ConfigError("a gradient was posted before the first step began");
  bucket.await();
  for (std::size_t i = 0; i < bucket.pieces.size(); ++i) {
    const auto& [parameter, gradient] = bucket.pieces[i];
    if (places_[parameter].bucket != nullptr) {
      throw ConfigError("the gradient of " + averager_.parameter(parameter).name + " was posted twice in a step");
    }
    places_[parameter] = {&bucket, i};
    widen(gradient, averager_.parameter(parameter).type, static_cast<float>(1 / averager_.loss_scale()),
          averager_.values(parameter));
    averager_.arrived(parameter);
  }
  if (bucket.pieces.empty()) return finish(bucket);
  averager_.run(finished_);
}

void PostedAverager::give_back(std::size_t parameter) {
  const auto [bucket, piece] = places_[parameter];
  narrow(averager_.values(parameter), averager_.parameter(parameter).type, static_cast<float>(averager_.loss_scale()),
         bucket->pieces[piece].gradient);
  if (--bucket->missing_ == 0) finish(*bucket);
}

void PostedAverager::finish(PostedBucket& bucket) {
  std::erase(unfinished_, &bucket);
  bucket.finish(nullptr);
}

// A gradient that has not come by the end of backward never comes, and we would wait for it for ever.
void PostedAverager::check_complete() const {
  std::vector<std::string_view> missing;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].bucket == nullptr) missing.push_back(averager_.parameter(i).name);
  }
  if (missing.empty()) return;
  throw ConfigError(fmt::format("no gradient was posted of {}", fmt::join(missing, ", ")));
}

}  // namespace sotto
