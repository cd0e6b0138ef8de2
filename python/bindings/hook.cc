#include "python/bindings/hook.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>

#include "python/bindings/errors.h"
#include "python/bindings/gradient_job.h"
#include "python/bindings/tensor_types.h"
#include "python/bindings/terms.h"
#include "sotto/comm/comm_thread.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/hash.h"

namespace sotto::python {
namespace {

using Future = c10::ivalue::Future;
using Job = GradientJob;

DType gradient_type(const at::Tensor& tensor, const std::string& name) {
  const auto type = type_of(tensor.scalar_type());
  if (type == DType::f32 || type == DType::f16 || type == DType::bf16) return *type;
  throw ConfigError(
      fmt::format("parameter {} is of type {}; gradients can be compressed in float32, float16 and "
                  "bfloat16",
                  name, c10::toString(tensor.scalar_type())));
}

}  // namespace

class Hook::Impl {
 public:
  Impl(std::vector<std::pair<std::string, at::Tensor>> parameters, HookOptions options,
       std::shared_ptr<Communicator> communicator)
      : options_(std::move(options)),
        parameters_(std::move(parameters)),
        averager_(describe(parameters_), with_terms(options_), std::move(communicator)),
        job_of_(parameters_.size()),
        finished_([this](std::size_t parameter) { give_back(parameter); }) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      index_of_.emplace(parameters_[i].second.unsafeGetTensorImpl(), i);
    }
  }

  // Runs on the thread of backward.
  c10::intrusive_ptr<Future> take(c10d::GradBucket& bucket) {
    Job* job = job_at(bucket.getIndex());
    telling_others([&] { fill(*job, bucket); });
    auto future = job->future;
    thread_.post([this, job] { work(*job); });
    return future;
  }

  // Runs on the thread of backward, too. A refusal ends the step on all ranks.
  void offer(std::size_t parameter, const at::Tensor& gradient) {
    Job* job = job_at(offered_);
    job->index = offered_;
    telling_others([&] { fill(*job, parameter, gradient); });
    offered_ = (offered_ + 1) % parameters_.size();
    job->last = offered_ == 0;
    thread_.post([this, job] { work(*job); });
  }

  void refuse(const std::string& why) {
    thread_.post([this, error = std::make_exception_ptr(ConfigError(why))] { fail(error); });
    thread_.wait();
  }

  void wait() {
    thread_.wait();
    if (cause_) std::rethrow_exception(cause_);
  }

  // Between steps the thread runs only its last few instructions.
  GradientAverager& idle() const {
    thread_.wait();
    return averager_;
  }

 private:
  static AveragerOptions with_terms(HookOptions& options) {
    Terms& same = options.averager.required_same;
    const Terms own{{"check_replicas", std::to_string(options.check_replicas)},
                    {"scaler", options.loss_scale ? "one" : "none"},
                    {"nonfinite", options.averager.propagate ? "propagate" : "raise"}};
    same.insert(same.begin(), own.begin(), own.end());
    return std::move(options.averager);
  }

  // Tells the other ranks, which wait for this one, of an error on the thread of backward.
  template <class Work>
  void telling_others(Work work) {
    try {
      work();
    } catch (const std::exception&) {
      thread_.post([this, error = std::current_exception()] { fail(error); });
      throw;
    }
  }

  static std::vector<Parameter> describe(const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
    std::vector<Parameter> all;
    all.reserve(parameters.size());
    for (const auto& [name, tensor] : parameters)
      all.push_back({name, memory_shape(tensor), gradient_type(tensor, name)});
    return all;
  }

  Job* job_at(std::size_t index) {
    if (jobs_.size() <= index) jobs_.resize(index + 1);
    if (!jobs_[index]) jobs_[index] = std::make_unique<Job>();
    return jobs_[index].get();
  }

  void fill(Job& job, std::size_t parameter, const at::Tensor& gradient) {
    const auto& [name, tensor] = parameters_[parameter];
    if (gradient.layout() != at::kStrided || gradient.sizes() != tensor.sizes() ||
        gradient.scalar_type() != scalar_of(averager_.parameter(parameter).type)) {
      throw ConfigError(
          fmt::format("the gradient of {} is sparse, or of another shape or type than the parameter was when it was "
                      "wrapped; wrap the module again",
                      name));
    }
    if (job.index == 0) begin_backward(job);
    job.buffer = gradient;
    job.pieces = {{parameter, {0, gradient.nbytes()}}};
    job.missing = 1;
    const bool as_it_is = gradient.is_non_overlapping_and_dense() && gradient.strides() == tensor.strides();
    job.bring(as_it_is ? gradient.strides().vec() : dense_strides(tensor));
  }

  void fill(Job& job, c10d::GradBucket& bucket) {
    job.index = bucket.getIndex();
    job.last = bucket.isLast();
    if (job.index == 0) begin_backward(job);
    job.buffer = bucket.getBufferRef();
    if (job.buffer.layout() != at::kStrided)
      throw ConfigError("sparse gradients cannot be compressed; make them dense");
    const auto parameters = bucket.getParameters();
    const auto gradients = bucket.getGradients();
    job.pieces.clear();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto found = index_of_.find(parameters[i].unsafeGetTensorImpl());
      if (found == index_of_.end()) throw ConfigError("DDP reduces a parameter that its module no longer has");
      const std::size_t begin = static_cast<std::size_t>(gradients[i].storage_offset() - job.buffer.storage_offset()) *
                                job.buffer.element_size();
      const DType type = gradient_type(job.buffer, parameters_[found->second].first);
      if (type != averager_.parameter(found->second).type) {
        throw ConfigError(
            fmt::format("the gradient of {} is of another type than the parameter was when it was "
                        "compressed",
                        parameters_[found->second].first));
      }
      job.pieces.push_back({found->second, {begin, begin + gradients[i].nbytes()}});
    }
    job.missing = job.pieces.size();
    job.bring(job.buffer.strides().vec());
    const c10::Device device = job.buffer.device();
    job.future = c10::make_intrusive<Future>(
        c10::TensorType::get(), device.is_cpu() ? std::vector<c10::Device>{} : std::vector<c10::Device>{device});
  }

  void begin_backward(Job& job) const {
    if (const std::string why = options_.problem ? options_.problem() : ""; !why.empty()) throw ConfigError(why);
    job.loss_scale = options_.loss_scale ? options_.loss_scale() : 1;
  }

  // All functions below run on our thread.
  void work(Job& job) {
    if (job.index == 0 && !error_) active_.clear();
    if (job.future) active_.push_back(job.future);
    const bool last = job.last;  // once its means are there, the job no longer belongs to us
    if (!error_) {
      try {
        if (job.index == 0) start_step(job.loss_scale);
        if (job.copied) job.copied->synchronize();
        for (const Job::Piece& piece : job.pieces) receive(job, piece);
        run();
        if (last) check_complete();
        return;
      } catch (const std::exception&) {
        return fail(std::current_exception());
      }
    }
    end_all();
  }

  void fail(const std::exception_ptr& error) {
    if (!error_) {
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& thrown) {
        averager_.communicator().give_up(thrown.what());
      }
      cause_ = error;
      error_ = for_torch(error);
    }
    end_all();
  }

  void end_all() {
    for (const auto& open : active_) {
      if (!open->completed()) open->setError(error_);
    }
    active_.clear();
  }

  void run() {
    try {
      averager_.run(finished_);
    } catch (const NumericError& error) {
      if (!options_.advice) throw;
      throw NumericError(error.what() + options_.advice());
    }
  }

  void start_step(double loss_scale) {
    std::ranges::fill(job_of_, nullptr);
    averager_.start_step(loss_scale);
    if (options_.check_replicas > 0 && averager_.step() % options_.check_replicas == 0) check_replicas();
  }

  // If a gradient has not come with DDP's last bucket, it never comes, and we would wait for it for ever.
  void check_complete() const {
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (job_of_[i] == nullptr) missing.push_back(parameters_[i].first);
    }
    if (missing.empty()) return;
    throw ConfigError(
        fmt::format("DDP does not reduce {}: frozen when DistributedDataParallel was made, or added since; make it "
                    "again, and call sotto.compress again",
                    fmt::join(missing, ", ")));
  }

  void receive(Job& job, const Job::Piece& piece) {
    job_of_[piece.parameter] = &job;
    widen(job.bytes().subspan(piece.bytes.begin, piece.bytes.size()), averager_.parameter(piece.parameter).type,
          static_cast<float>(1 / averager_.loss_scale()), averager_.values(piece.parameter));
    averager_.arrived(piece.parameter);
  }

  // After the last mean of a bucket the job no longer belongs to us.
  void give_back(std::size_t parameter) {
    Job& job = *job_of_[parameter];
    const auto piece = std::ranges::find(job.pieces, parameter, &Job::Piece::parameter);
    narrow(averager_.values(parameter), averager_.parameter(parameter).type, static_cast<float>(averager_.loss_scale()),
           job.bytes().subspan(piece->bytes.begin, piece->bytes.size()));
    if (--job.missing > 0) return;
    job.take_back();
    if (job.future) {
      job.future->markCompleted(job.buffer);
    } else {
      job.buffer.reset();  // so that only one exists at a time
      job.host.reset();
    }
  }

  // The optimiser has finished the last step, and does not touch the parameters during backward.
  void check_replicas() {
    Hash hash;
    for (const auto& [name, tensor] : parameters_) {
      const at::Tensor values = tensor.detach().cpu().contiguous();
      hash.add(sha256_hex({static_cast<const std::byte*>(values.data_ptr()), values.nbytes()}));
    }
    if (const int other = first_to_differ(averager_.communicator(), hash.value()); other >= 0) {
      throw NumericError(
          fmt::format("rank {} has other parameters than rank 0 at the start of step {}", other, averager_.step()));
    }
  }

  HookOptions options_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  mutable GradientAverager averager_;
  std::unordered_map<c10::TensorImpl*, std::size_t> index_of_;
  std::vector<std::unique_ptr<Job>>
      jobs_;                 // by DDP's bucket index, or in the order of offers; belong to the thread of backward
  std::size_t offered_ = 0;  // number of gradients in this backward
  std::vector<c10::intrusive_ptr<Future>> active_;  // of this step
  std::vector<Job*> job_of_;                        // by parameter; null: its gradient did not come yet
  std::function<void(std::size_t)> finished_;
  std::exception_ptr cause_;   // our own error, after which the hook stays failed
  std::exception_ptr error_;   // the same for torch
  mutable CommThread thread_;  // last: it ends before what its work uses
};

class Hook::CommHook final : public c10d::CommHookInterface {
 public:
  explicit CommHook(std::shared_ptr<Hook> hook) : hook_(std::move(hook)) {}

  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    try {
      return hook_->impl_->take(bucket);
    } catch (const Error&) {
      std::rethrow_exception(for_torch(std::current_exception()));
    }
  }
  at::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

 private:
  std::shared_ptr<Hook> hook_;
};

Hook::Hook(std::vector<std::pair<std::string, at::Tensor>> parameters, HookOptions options,
           std::shared_ptr<Communicator> communicator)
    : impl_(std::make_unique<Impl>(std::move(parameters), std::move(options), std::move(communicator))) {}

Hook::~Hook() = default;

void Hook::check(const Parameters& parameters) {
  for (const auto& [name, tensor] : parameters) gradient_type(tensor, name);
}

void Hook::offer(std::size_t parameter, const at::Tensor& gradient) { impl_->offer(parameter, gradient); }
void Hook::wait() { impl_->wait(); }
void Hook::refuse(const std::string& why) { impl_->refuse(why); }

AveragerStats Hook::stats() const { return impl_->idle().stats(); }
std::string Hook::methods() const { return impl_->idle().methods(); }
std::string Hook::identity() const { return impl_->idle().identity(); }
int Hook::rank() const { return impl_->idle().communicator().rank(); }
int Hook::ranks() const { return impl_->idle().communicator().size(); }
std::uint64_t Hook::step() const { return impl_->idle().step(); }

std::vector<std::string> Hook::gather(const std::string& own) const {
  return sotto::python::gather(impl_->idle().communicator(), own);
}

StateValues Hook::state() const { return impl_->idle().state(); }
std::vector<std::string> Hook::shared() const { return impl_->idle().shared(); }
void Hook::load(std::uint64_t step, const StateValues& values) { impl_->idle().load(step, values); }
void Hook::spread(std::uint64_t step, std::span<const FormerState> states) { impl_->idle().spread(step, states); }

void Hook::attach(const std::shared_ptr<Hook>& hook, c10d::Reducer& reducer) {
  reducer.register_comm_hook(std::make_unique<CommHook>(hook));
}

}  // namespace sotto::python
