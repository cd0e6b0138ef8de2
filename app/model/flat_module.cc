#include "app/model/flat_module.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "app/model/network.h"

namespace sotto {
namespace {

at::Tensor view_of(const at::Tensor& flat, const Segment& segment) {
  return flat.narrow(0, static_cast<std::int64_t>(segment.offset), static_cast<std::int64_t>(segment.numel()))
      .view(segment.shape);
}

at::Tensor zeros_for(const Layout& layout) { return at::zeros({static_cast<std::int64_t>(layout.size())}, at::kFloat); }

// Torch's autocast on this thread, as long as the object lives.
class Autocast {
 public:
  explicit Autocast(Precision precision) : on_(precision != Precision::f32) {
    if (!on_) return;
    at::autocast::set_autocast_dtype(at::kCPU, precision == Precision::f16 ? at::kHalf : at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Autocast() {
    if (!on_) return;
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();  // of parameters that the next step changes
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
};

}  // namespace

at::Tensor row_of(std::span<const std::int64_t> values) {
  return at::from_blob(const_cast<std::int64_t*>(values.data()), {static_cast<std::int64_t>(values.size())}, at::kLong);
}

void check_tokens(std::span<const std::int64_t> tokens, std::int64_t vocabulary, std::string_view model) {
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      throw ConfigError(fmt::format("token {}; model {} has tokens 0 to {}", token, model, vocabulary - 1));
    }
  }
}

// Torch calls this hook when backward has added all contributions to a parameter's .grad.
class FlatModule::ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  ReadyHook(const FlatModule& flat, std::size_t segment) : flat_(flat), segment_(segment) {}

  void operator()(const at::Tensor& parameter) override {
    const Segment& segment = flat_.layout_.segments()[segment_];
    if (parameter.grad().data_ptr<float>() != flat_.gradient_.data_ptr<float>() + segment.offset) {
      throw std::logic_error("torch replaced the gradient of " + segment.name + ", which must stay a view");
    }
    if (!flat_.announced_[segment_]) {
      throw std::logic_error("model " + flat_.name_ + " reads " + segment.name + " without through()");
    }
    if (flat_.calls_->ready) flat_.calls_->ready(segment_);
  }

 private:
  const FlatModule& flat_;
  std::size_t segment_;
};

// Sets calls_ from the beginning of forward to the end of backward, and resets it when one of them throws.
class FlatModule::Running {
 public:
  Running(FlatModule& flat, const SegmentCalls& calls)
      : flat_(flat), scope_([&flat](const torch::nn::Module& module) { flat.announce(module); }) {
    flat_.calls_ = &calls;
    std::ranges::fill(flat_.announced_, char{false});
  }
  ~Running() { flat_.calls_ = nullptr; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  FlatModule& flat_;
  NeedScope scope_;
};

FlatModule::FlatModule(std::string name, std::shared_ptr<torch::nn::Module> module)
    : name_(std::move(name)), module_(std::move(module)) {
  bind_parameters();
  bind_buffers();
}

std::span<float> FlatModule::span_of(const at::Tensor& flat) {
  return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

void FlatModule::bind_parameters() {
  const auto parameters = module_->named_parameters();
  for (const auto& item : parameters) layout_.append(item.key(), item.value().sizes().vec());
  parameters_ = zeros_for(layout_);
  gradient_ = zeros_for(layout_);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor parameter = parameters[i].value();
    const at::Tensor view = view_of(parameters_, layout_.segments()[i]);
    view.copy_(parameter.detach());
    parameter.set_data(view);
    parameter.mutable_grad() = view_of(gradient_, layout_.segments()[i]);
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<ReadyHook>(*this, i));
  }
  announced_.resize(parameters.size());
  for (const auto& module : module_->modules()) {
    for (const at::Tensor& own : module->parameters(/*recurse=*/false)) {
      const auto same = [&](const auto& item) { return item.value().is_same(own); };
      const auto found = std::find_if(parameters.begin(), parameters.end(), same);
      segments_of_[module.get()].push_back(static_cast<std::size_t>(found - parameters.begin()));
    }
  }
}

// Calls `needed` once for each segment, however often the network uses it.
void FlatModule::announce(const torch::nn::Module& module) {
  const auto found = segments_of_.find(&module);
  if (found == segments_of_.end()) return;
  for (const std::size_t segment : found->second) {
    if (std::exchange(announced_[segment], char{true})) continue;
    if (calls_->needed) calls_->needed(segment);
  }
}

void FlatModule::bind_buffers() {
  std::vector<at::Tensor> buffers;
  for (const auto& item : module_->named_buffers()) {
    if (item.value().scalar_type() != at::kFloat) continue;
    buffer_layout_.append(item.key(), item.value().sizes().vec());
    buffers.push_back(item.value());
  }
  buffers_ = zeros_for(buffer_layout_);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const at::Tensor view = view_of(buffers_, buffer_layout_.segments()[i]);
    view.copy_(buffers[i]);
    buffers[i].set_data(view);
  }
}

double FlatModule::accumulate_gradient(float scale, const SegmentCalls& calls,
                                       const std::function<at::Tensor()>& forward) {
  module_->train();
  const Running running(*this, calls);
  return in_torch(name_, [&] {
    at::Tensor loss;
    {
      const Autocast autocast(precision_);
      loss = forward();
    }
    loss.backward(at::scalar_tensor(scale));
    return loss.item<double>();
  });
}

double FlatModule::evaluate(const std::function<at::Tensor()>& forward) {
  const at::NoGradGuard no_grad;
  module_->eval();
  return in_torch(name_, [&] { return forward().item<double>(); });
}

}  // namespace sotto
