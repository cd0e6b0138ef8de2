#include "sotto/model/flat_model.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/model/through.h"

namespace sotto {
namespace {

at::Tensor view_of(const at::Tensor& flat, const Segment& segment) {
  return flat.narrow(0, static_cast<std::int64_t>(segment.offset), static_cast<std::int64_t>(segment.numel()))
      .view(segment.shape);
}

at::Tensor zeros_for(const Layout& layout) { return at::zeros({static_cast<std::int64_t>(layout.size())}, at::kFloat); }

at::Tensor labels_of(const Batch& batch) {
  return at::from_blob(const_cast<std::int64_t*>(batch.labels.data()), {static_cast<std::int64_t>(batch.count())},
                       at::kLong);
}

void show(const at::Tensor& outputs, const Model::SeeOutputs& see) {
  if (!see) return;
  const at::Tensor dense = outputs.detach().contiguous();
  see({dense.data_ptr<float>(), static_cast<std::size_t>(dense.numel())});
}

}  // namespace

// Torch calls this hook when backward has added all contributions to a parameter's .grad.
class FlatModel::ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  ReadyHook(const FlatModel& model, std::size_t segment) : model_(model), segment_(segment) {}

  void operator()(const at::Tensor& parameter) override {
    const Segment& segment = model_.layout_.segments()[segment_];
    if (parameter.grad().data_ptr<float>() != model_.gradient_.data_ptr<float>() + segment.offset) {
      throw std::logic_error("torch replaced the gradient of " + segment.name + ", which must stay a view");
    }
    if (!model_.announced_[segment_]) {
      throw std::logic_error("model " + model_.name_ + " reads " + segment.name + " without through()");
    }
    if (model_.calls_->ready) model_.calls_->ready(segment_);
  }

 private:
  const FlatModel& model_;
  std::size_t segment_;
};

// Sets calls_ from the beginning of forward to the end of backward, and resets it when one of them throws.
class FlatModel::Running {
 public:
  Running(FlatModel& model, const Calls& calls)
      : model_(model), scope_([&model](const torch::nn::Module& module) { model.announce(module); }) {
    model_.calls_ = &calls;
    std::ranges::fill(model_.announced_, char{false});
  }
  ~Running() { model_.calls_ = nullptr; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  FlatModel& model_;
  NeedScope scope_;
};

FlatModel::FlatModel(std::string name, const ImageShape& shape, std::int64_t outputs, std::shared_ptr<Network> network,
                     Loss loss)
    : name_(std::move(name)), shape_(shape), outputs_(outputs), network_(std::move(network)), loss_(loss) {
  bind_parameters();
  bind_buffers();
}

FlatModel::~FlatModel() = default;

std::span<float> FlatModel::span_of(const at::Tensor& flat) {
  return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

void FlatModel::bind_parameters() {
  const auto parameters = network_->named_parameters();
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
  for (const auto& module : network_->modules()) {
    for (const at::Tensor& own : module->parameters(/*recurse=*/false)) {
      const auto same = [&](const auto& item) { return item.value().is_same(own); };
      const auto found = std::find_if(parameters.begin(), parameters.end(), same);
      segments_of_[module.get()].push_back(static_cast<std::size_t>(found - parameters.begin()));
    }
  }
}

// Calls `needed` once for each segment, however often the network uses it.
void FlatModel::announce(const torch::nn::Module& module) {
  const auto found = segments_of_.find(&module);
  if (found == segments_of_.end()) return;
  for (const std::size_t segment : found->second) {
    if (std::exchange(announced_[segment], char{true})) continue;
    if (calls_->needed) calls_->needed(segment);
  }
}

void FlatModel::bind_buffers() {
  std::vector<at::Tensor> buffers;
  for (const auto& item : network_->named_buffers()) {
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

void FlatModel::check(const Batch& batch) const {
  if (batch.shape != shape_) {
    throw ConfigError(fmt::format(
        "model {} was made for images of {}x{}x{} (channels, height, width), these are {}x{}x{}", name_,
        shape_.channels, shape_.height, shape_.width, batch.shape.channels, batch.shape.height, batch.shape.width));
  }
  if (batch.images.size() != batch.count() * shape_.size()) {
    throw ConfigError(fmt::format("batch of {} labels has {} image values; {} are wanted", batch.count(),
                                  batch.images.size(), batch.count() * shape_.size()));
  }
  if (loss_ != Loss::cross_entropy) return;
  for (std::size_t i = 0; i < batch.count(); ++i) {
    if (batch.labels[i] < 0 || batch.labels[i] >= outputs_) {
      throw ConfigError(fmt::format("example {} of the batch has label {}; model {} has classes 0 to {}", i,
                                    batch.labels[i], name_, outputs_ - 1));
    }
  }
}

at::Tensor FlatModel::images_of(const Batch& batch) const {
  const auto [channels, height, width] = shape_;
  float* data = const_cast<float*>(batch.images.data());
  const std::vector<std::int64_t> sizes{static_cast<std::int64_t>(batch.count()), channels, height, width};
  // Channels-last order, which the following convolutions and poolings keep: LeNet trains 1.6 times as fast. With one
  // channel both orders have the same bytes, and only the strides tell torch which one is meant.
  if (channels == 1) return at::from_blob(data, sizes, {height * width, 1, width, 1}, at::kFloat);
  return at::from_blob(data, sizes, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor FlatModel::loss_of(const at::Tensor& outputs, const Batch& batch, std::int64_t reduction) const {
  const at::Tensor labels = labels_of(batch);
  if (loss_ == Loss::cross_entropy) return at::cross_entropy_loss(outputs, labels, {}, reduction);
  return at::mse_loss(outputs.squeeze(1), labels.to(at::kFloat), reduction);
}

double FlatModel::accumulate_gradient(const Batch& batch, float scale, std::uint64_t random, const Calls& calls,
                                      const SeeOutputs& see) {
  check(batch);
  if (batch.count() == 0) throw ConfigError("the gradient of an empty batch does not exist");
  network_->train();
  const Running running(*this, calls);
  const at::Tensor outputs = network_->forward(images_of(batch), random);
  const at::Tensor loss = loss_of(outputs, batch, at::Reduction::Mean);
  loss.backward(at::scalar_tensor(scale));
  show(outputs, see);
  return loss.item<double>();
}

double FlatModel::evaluate(const Batch& batch, const SeeOutputs& see) {
  check(batch);
  if (batch.count() == 0) return 0;
  const at::NoGradGuard no_grad;
  network_->eval();
  const at::Tensor outputs = network_->forward(images_of(batch), 0);
  show(outputs, see);
  return loss_of(outputs, batch, at::Reduction::Sum).item<double>();
}

}  // namespace sotto
