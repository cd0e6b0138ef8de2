#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sotto/capi/gradient_averager.h"
#include "sotto/comm/comm_thread.h"

namespace sotto {

// One of a framework's buckets, or one gradient, while it is averaged. It belongs to the caller of
// PostedAverager::post(), who keeps it, and its memory, until finish().
class PostedBucket {
 public:
  struct Piece {
    std::size_t parameter = 0;
    std::span<std::byte> gradient;  // in the type of the parameter; the mean is written here
  };
  virtual ~PostedBucket() = default;
  // Both are called on the averager's thread. await() returns when the gradients can be read.
  virtual void await() {}
  // The means are in place, or there is an error and the memory is as it was, or half written. The averager does not
  // use the bucket afterwards.
  virtual void finish(const std::exception_ptr& error) = 0;

  std::vector<Piece> pieces;

 private:
  friend class PostedAverager;
  std::size_t missing_ = 0;  // means that are not there yet
};

// Averages gradients on a thread of its own, in whatever buckets a framework has them: it copies them into the vectors
// of a GradientAverager, exchanges complete buckets of that, and finishes each posted bucket when the means of all its
// parameters are there. Thus backward, copying and the network overlap.
//
// An error on that thread ends the step on all ranks: here as the error of every unfinished bucket, elsewhere through
// the closed connections. Every later step then fails with it at once.
class PostedAverager {
 public:
  // Collective.
  PostedAverager(std::vector<Parameter> parameters, AveragerOptions options,
                 std::shared_ptr<Communicator> communicator);
  ~PostedAverager();  // finishes the buckets of a step that has not ended, with an error
  PostedAverager(const PostedAverager&) = delete;
  PostedAverager& operator=(const PostedAverager&) = delete;

  const Parameter& parameter(std::size_t index) const { return averager_.parameter(index); }

  // A step: begin(), post() with every gradient once, in any order, end(). They do not wait. `loss_scale` is the factor
  // by which the loss was multiplied: gradients are divided by it when they arrive and means multiplied by it when they
  // leave, so that memories hold the same as without. A step that was not ended is abandoned by the next begin(), and
  // its buckets finish with an error. `replica` is a hash of the parameters: NumericError of the step if a rank has
  // another one. All ranks pass one in the same steps.
  void begin(double loss_scale, std::optional<std::uint64_t> replica = {});
  void post(PostedBucket& bucket);
  void end();  // NumericError and so on come from wait(); ConfigError there if a gradient was not posted
  // Waits for what was posted, and throws the error that ended a step.
  void wait();
  // Ends the step on all ranks, if none did before.
  void fail(std::exception_ptr error);

  // The averager, between steps. Then the thread runs at most its last few instructions.
  GradientAverager& idle() const;

 private:
  struct Place {
    PostedBucket* bucket = nullptr;  // null: the gradient did not come yet
    std::size_t piece = 0;
  };

  // All functions below run on the thread.
  void attempt(const std::function<void()>& work);
  void fail_here(const std::exception_ptr& error);
  void start_step(double loss_scale, std::optional<std::uint64_t> replica);
  void receive(PostedBucket& bucket);
  void give_back(std::size_t parameter);
  void finish(PostedBucket& bucket);
  void check_complete() const;

  mutable GradientAverager averager_;
  std::vector<Place> places_;  // by parameter
  std::vector<PostedBucket*> unfinished_;
  std::function<void(std::size_t)> finished_;
  bool begun_ = false;         // a step: before it no gradient is missing
  std::exception_ptr error_;   // of the step that failed; for good
  mutable CommThread thread_;  // last: it ends before what its work uses
};

}  // namespace sotto
