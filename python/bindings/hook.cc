#include "python/bindings/hook.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "python/bindings/agreement.h"
#include "python/bindings/errors.h"
#include "sotto/comm/comm_thread.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/hash.h"
#include "sotto/kernels/cast.h"

namespace sotto::python {
namespace {

using Future = c10::ivalue::Future;

DType type_of(const at::Tensor& tensor, const std::string& name) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return DType::f32;
    case at::kHalf: return DType::f16;
    case at::kBFloat16: return DType::bf16;
    default: break;
  }
  throw ConfigError(
      fmt::format("parameter {} is of type {}; gradients can be compressed in float32, float16 and "
                  "bfloat16",
                  name, c10::toString(tensor.scalar_type())));
}

// The dimensions in the order in which they lie in memory: that of a bucket's values.
std::vector<std::int64_t> memory_shape(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  if (tensor.is_non_overlapping_and_dense()) {
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::int64_t d) { return tensor.stride(d); });
  }
  for (std::int64_t& d : order) d = tensor.size(d);
  return order;
}

void widen(std::span<const std::byte> from, DType type, std::span<float> to) {
  if (type == DType::f32) {
    std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  std::ranges::fill(to, 0.0F);
  if (type == DType::f16) kernels::add_f16(from, 1.0F, 1.0F, to);
  if (type == DType::bf16) kernels::add_bf16(from, 1.0F, to);
}

// A mean that is not finite is so in all elements (AveragerOptions::propagate).
void narrow(std::span<const float> from, DType type, std::span<std::byte> to) {
  if (type == DType::f32) {
    std::memcpy(to.data(), from.data(), to.size());
  } else if (!from.empty() && !std::isfinite(from.front())) {
    std::ranges::fill(to, std::byte{0xFF});  // NaN in either
  } else if (type == DType::f16) {
    kernels::to_f16(from, 1.0F, 1.0F, to);
  } else {
    kernels::to_bf16(from, 1.0F, to);
  }
}

// One of DDP's buckets on its way through us.
struct Job {
  struct Piece {
    std::size_t parameter = 0;
    Range bytes;  // of the buffer
  };
  std::size_t index = 0;
  bool last = false;  // of DDP's, in this backward
  at::Tensor buffer;
  at::Tensor host;                   // the buffer itself, or a copy of a device's in page-locked memory
  std::optional<c10::Event> copied;  // to `host`
  std::vector<Piece> pieces;
  std::size_t missing = 0;  // means
  c10::intrusive_ptr<Future> future;

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(host.data_ptr()), host.nbytes()}; }
};

}  // namespace

class Hook::Impl {
 public:
  Impl(std::vector<std::pair<std::string, at::Tensor>> parameters, HookOptions options,
       std::shared_ptr<Communicator> communicator)
      : options_(std::move(options)),
        parameters_(std::move(parameters)),
        averager_(describe(parameters_), agreed(options_), std::move(communicator)),
        job_of_(parameters_.size()),
        finished_([this](std::size_t parameter) { give_back(parameter); }) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      index_of_.emplace(parameters_[i].second.unsafeGetTensorImpl(), i);
    }
  }

  // On the thread of backward.
  c10::intrusive_ptr<Future> take(c10d::GradBucket& bucket) {
    const std::size_t index = bucket.getIndex();
    if (jobs_.size() <= index) jobs_.resize(index + 1);
    if (!jobs_[index]) jobs_[index] = std::make_unique<Job>();
    Job* job = jobs_[index].get();
    fill(*job, bucket);
    auto future = job->future;
    thread_.post([this, job] { work(*job); });
    return future;
  }

  // Nothing is under way between steps but the last few instructions of the thread.
  Averager& idle() const {
    thread_.wait();
    return averager_;
  }

 private:
  static AveragerOptions agreed(HookOptions& options) {
    options.averager.agreed = fmt::format("check_replicas {}", options.check_replicas);
    return std::move(options.averager);
  }

  static std::vector<Parameter> describe(const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
    std::vector<Parameter> all;
    for (const auto& [name, tensor] : parameters) all.push_back({name, memory_shape(tensor), type_of(tensor, name)});
    return all;
  }

  void fill(Job& job, c10d::GradBucket& bucket) {
    job.index = bucket.getIndex();
    job.last = bucket.isLast();
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
      const DType type = type_of(job.buffer, parameters_[found->second].first);
      if (type != averager_.parameter(found->second).type) {
        throw ConfigError(
            fmt::format("the gradient of {} is of another type than the parameter was when it was "
                        "compressed",
                        parameters_[found->second].first));
      }
      job.pieces.push_back({found->second, {begin, begin + gradients[i].nbytes()}});
    }
    job.missing = job.pieces.size();
    const c10::Device device = job.buffer.device();
    if (device.is_cpu()) {
      job.host = job.buffer;
      job.future = c10::make_intrusive<Future>(c10::TensorType::get());
      return;
    }
    // In the order of the stream that made the gradients; our thread waits for the event.
    if (!job.host.defined() || job.host.sizes() != job.buffer.sizes() ||
        job.host.scalar_type() != job.buffer.scalar_type()) {
      job.host = at::empty(job.buffer.sizes(), job.buffer.options().device(at::kCPU).pinned_memory(true));
    }
    job.host.copy_(job.buffer, /*non_blocking=*/true);
    job.copied.emplace(device.type());
    job.copied->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    job.future = c10::make_intrusive<Future>(c10::TensorType::get(), std::vector<c10::Device>{device});
  }

  // All below: on our thread.
  void work(Job& job) {
    active_.push_back(job.future);
    const bool last = job.last;  // once its means are there, the job is no longer ours
    if (!error_) {
      try {
        if (job.index == 0) start_step();
        if (job.copied) job.copied->synchronize();
        for (const Job::Piece& piece : job.pieces) receive(job, piece);
        averager_.run(finished_);
        if (last) check_complete();
        return;
      } catch (const std::exception& error) {
        averager_.communicator().give_up(error.what());
        error_ = for_torch(std::current_exception());
      }
    }
    for (const auto& open : active_) {
      if (!open->completed()) open->setError(error_);
    }
    active_.clear();
  }

  void start_step() {
    active_.erase(active_.begin(), active_.end() - 1);
    std::ranges::fill(job_of_, nullptr);
    averager_.start_step();
    if (options_.check_replicas > 0 && averager_.step() % options_.check_replicas == 0) check_replicas();
  }

  // What does not come with DDP's last bucket never comes, and would be waited for without end.
  void check_complete() const {
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (job_of_[i] == nullptr) missing.push_back(parameters_[i].first);
    }
    if (missing.empty()) return;
    throw ConfigError(
        fmt::format("DDP does not reduce {}: frozen when DistributedDataParallel was made, or added since; make "
                    "it anew, and call sotto.compress again",
                    fmt::join(missing, ", ")));
  }

  void receive(Job& job, const Job::Piece& piece) {
    job_of_[piece.parameter] = &job;
    widen(job.bytes().subspan(piece.bytes.begin, piece.bytes.size()), averager_.parameter(piece.parameter).type,
          averager_.values(piece.parameter));
    averager_.arrived(piece.parameter);
  }

  // After the last mean of a bucket the job is no longer ours.
  void give_back(std::size_t parameter) {
    Job& job = *job_of_[parameter];
    const auto piece = std::ranges::find(job.pieces, parameter, &Job::Piece::parameter);
    narrow(averager_.values(parameter), averager_.parameter(parameter).type,
           job.bytes().subspan(piece->bytes.begin, piece->bytes.size()));
    if (--job.missing > 0) return;
    if (job.copied) job.buffer.copy_(job.host);
    job.future->markCompleted(job.buffer);
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
  mutable Averager averager_;
  std::unordered_map<c10::TensorImpl*, std::size_t> index_of_;
  std::vector<std::unique_ptr<Job>> jobs_;          // by DDP's bucket index; the thread of backward's
  std::vector<c10::intrusive_ptr<Future>> active_;  // of this step
  std::vector<Job*> job_of_;                        // by parameter; null: its gradient did not come yet
  std::function<void(std::size_t)> finished_;
  std::exception_ptr error_;   // for good
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

AveragerStats Hook::stats() const { return impl_->idle().stats(); }
std::string Hook::methods() const { return impl_->idle().methods(); }
std::string Hook::identity() const { return impl_->idle().identity(); }
int Hook::rank() const { return impl_->idle().communicator().rank(); }
int Hook::ranks() const { return impl_->idle().communicator().size(); }
std::uint64_t Hook::step() const { return impl_->idle().step(); }

StateValues Hook::state() const { return impl_->idle().state(); }
void Hook::load(std::uint64_t step, const StateValues& values) { impl_->idle().load(step, values); }
void Hook::spread(std::uint64_t step, std::span<const StateValues> states) { impl_->idle().spread(step, states); }

void Hook::attach(const std::shared_ptr<Hook>& hook, c10d::Reducer& reducer) {
  reducer.register_comm_hook(std::make_unique<CommHook>(hook));
}

}  // namespace sotto::python
