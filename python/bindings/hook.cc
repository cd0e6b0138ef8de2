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
#include "sotto/capi/posted_averager.h"
#include "sotto/capi/terms.h"
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
        averager_(describe(parameters_), averager_options(), std::move(communicator)) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      index_of_.emplace(parameters_[i].second.unsafeGetTensorImpl(), i);
    }
  }

  // Runs on the thread of backward.
  c10::intrusive_ptr<Future> take(c10d::GradBucket& bucket) {
    Job* job = job_at(bucket.getIndex());
    telling_others([&] {
      if (bucket.getIndex() == 0) begin_backward();
      fill(*job, bucket);
    });
    auto future = job->future;
    averager_.post(*job);
    if (bucket.isLast()) end_backward();
    return future;
  }

  // Runs on the thread of backward, too. A refusal ends the step on all ranks.
  void offer(std::size_t parameter, const at::Tensor& gradient) {
    Job* job = job_at(offered_);
    telling_others([&] {
      if (offered_ == 0) begin_backward();
      fill(*job, parameter, gradient);
    });
    averager_.post(*job);
    offered_ = (offered_ + 1) % parameters_.size();
    if (offered_ == 0) end_backward();
  }

  void refuse(const std::string& why) {
    averager_.fail(std::make_exception_ptr(ConfigError(why)));
    idle();
  }

  void wait() { averager_.wait(); }
  GradientAverager& idle() const { return averager_.idle(); }

 private:
  PostedAverager::Options averager_options() {
    Terms& same = options_.averager.required_same;
    const Terms own{{"check_replicas", std::to_string(options_.check_replicas)},
                    {"scaler", options_.loss_scale ? "one" : "none"},
                    {"nonfinite", options_.averager.propagate ? "propagate" : "raise"}};
    same.insert(same.begin(), own.begin(), own.end());
    return {.averager = std::move(options_.averager),
            .check_replicas = options_.check_replicas,
            .replica = [this] { return hash_of_parameters(); },
            .advice = options_.advice,
            .missing =
                [](const std::string& names) {
                  return "DDP does not reduce " + names +
                         ": frozen when DistributedDataParallel was made, or added since; make it again, and call "
                         "sotto.compress again";
                }};
  }

  // Tells the other ranks, which wait for this one, of an error on the thread of backward.
  template <class Work>
  void telling_others(Work work) {
    try {
      work();
    } catch (const std::exception&) {
      averager_.fail(std::current_exception());
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

  void begin_backward() {
    if (const std::string why = options_.problem ? options_.problem() : ""; !why.empty()) throw ConfigError(why);
    averager_.begin(options_.loss_scale ? options_.loss_scale() : 1);
    if (std::exchange(within_, true)) idle();  // the last backward raised an error: its jobs are free only now
  }

  void end_backward() {
    averager_.end();
    within_ = false;
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
    const bool as_it_is = gradient.is_non_overlapping_and_dense() && gradient.strides() == tensor.strides();
    job.bring(gradient, as_it_is ? gradient.strides().vec() : dense_strides(tensor));
    job.pieces = {{parameter, job.bytes()}};
  }

  void fill(Job& job, c10d::GradBucket& bucket) {
    const at::Tensor& buffer = bucket.getBufferRef();
    if (buffer.layout() != at::kStrided) throw ConfigError("sparse gradients cannot be compressed; make them dense");
    job.bring(buffer, buffer.strides().vec());
    const auto parameters = bucket.getParameters();
    const auto gradients = bucket.getGradients();
    job.pieces.clear();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto found = index_of_.find(parameters[i].unsafeGetTensorImpl());
      if (found == index_of_.end()) throw ConfigError("DDP reduces a parameter that its module no longer has");
      const std::string& name = parameters_[found->second].first;
      if (gradient_type(buffer, name) != averager_.parameter(found->second).type) {
        throw ConfigError(
            fmt::format("the gradient of {} is of another type than the parameter was when it was compressed", name));
      }
      const auto begin = static_cast<std::size_t>(gradients[i].storage_offset() - buffer.storage_offset());
      job.pieces.push_back({found->second, job.bytes().subspan(begin * buffer.element_size(), gradients[i].nbytes())});
    }
    const c10::Device device = buffer.device();
    job.future = c10::make_intrusive<Future>(
        c10::TensorType::get(), device.is_cpu() ? std::vector<c10::Device>{} : std::vector<c10::Device>{device});
  }

  std::uint64_t hash_of_parameters() const {
    Hash hash;
    for (const auto& [name, tensor] : parameters_) {
      const at::Tensor values = tensor.detach().cpu().contiguous();
      hash.add(sha256_hex({static_cast<const std::byte*>(values.data_ptr()), values.nbytes()}));
    }
    return hash.value();
  }

  HookOptions options_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::unordered_map<c10::TensorImpl*, std::size_t> index_of_;
  std::vector<std::unique_ptr<Job>>
      jobs_;                 // by DDP's bucket index, or in the order of offers; belong to the thread of backward
  std::size_t offered_ = 0;  // number of gradients in this backward
  bool within_ = false;      // a backward that has not ended
  PostedAverager averager_;  // last: it ends before what its thread uses
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
  return sotto::gather(impl_->idle().communicator(), own);
}

StateValues Hook::state() const { return impl_->idle().state(); }
std::vector<std::string> Hook::shared() const { return impl_->idle().shared(); }
void Hook::load(std::uint64_t step, const StateValues& values) { impl_->idle().load(step, values); }
void Hook::spread(std::uint64_t step, std::span<const FormerState> states) { impl_->idle().spread(step, states); }

void Hook::attach(const std::shared_ptr<Hook>& hook, c10d::Reducer& reducer) {
  reducer.register_comm_hook(std::make_unique<CommHook>(hook));
}

}  // namespace sotto::python
