#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "app/model/model.h"
#include "sotto/core/error.h"
#include "sotto/core/layout.h"

namespace sotto {

// Calls something that LibTorch computes for a model. Its errors, such as a lack of memory, become an Error that names
// the model.
template <class Call>
auto in_torch(std::string_view model, Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw Error(fmt::format("model {}: LibTorch fails: {}", model, error.what_without_backtrace()));
  }
}

// A tensor that borrows the numbers. It must not be written to.
at::Tensor row_of(std::span<const std::int64_t> values);

// ConfigError for a token that is not below `vocabulary`; `model` names the model in it.
void check_tokens(std::span<const std::int64_t> tokens, std::int64_t vocabulary, std::string_view model);

// A torch module whose parameters, gradients and float buffers were moved into three flat vectors. Invariants: every
// parameter, its .grad (never undefined) and every float buffer is a contiguous view into its vector at the offset that
// the layout gives; padding is zero.
class FlatModule {
 public:
  FlatModule(std::string name, std::shared_ptr<torch::nn::Module> module);
  FlatModule(const FlatModule&) = delete;  // torch's hooks refer to it
  FlatModule& operator=(const FlatModule&) = delete;

  const std::string& name() const { return name_; }
  const Layout& layout() const { return layout_; }
  const Layout& buffer_layout() const { return buffer_layout_; }
  std::span<float> parameters() { return span_of(parameters_); }
  std::span<float> gradient() { return span_of(gradient_); }
  std::span<float> buffers() { return span_of(buffers_); }
  void compute_in(Precision precision) { precision_ = precision; }

  // gradient() += scale * d(loss)/d(parameters), in training mode; returns the loss, a tensor of one element that
  // `forward` computes, under autocast unless the precision is float32.
  double accumulate_gradient(float scale, const SegmentCalls& calls, const std::function<at::Tensor()>& forward);
  // Calls `forward` in evaluation mode, without gradients.
  double evaluate(const std::function<at::Tensor()>& forward);

 private:
  class ReadyHook;
  class Running;
  static std::span<float> span_of(const at::Tensor& flat);
  void bind_parameters();
  void bind_buffers();
  void announce(const torch::nn::Module& module);

  std::string name_;
  std::shared_ptr<torch::nn::Module> module_;
  Layout layout_, buffer_layout_;
  at::Tensor parameters_, gradient_, buffers_;  // flat; torch's CPU allocator aligns them to 64 bytes
  std::unordered_map<const torch::nn::Module*, std::vector<std::size_t>> segments_of_;  // without its children's
  Precision precision_ = Precision::f32;
  const SegmentCalls* calls_ = nullptr;  // set while a gradient is computed
  std::vector<char> announced_;          // for each segment, whether calls_->needed was called for this gradient
};

// A kind of model (ImageModel) whose flat vectors belong to a module.
template <class Kind>
class ModuleModel : public Kind {
 public:
  ModuleModel(std::string name, std::shared_ptr<torch::nn::Module> module)
      : flat_(std::move(name), std::move(module)) {}

  const std::string& name() const override { return flat_.name(); }
  const Layout& layout() const override { return flat_.layout(); }
  const Layout& buffer_layout() const override { return flat_.buffer_layout(); }
  std::span<float> parameters() override { return flat_.parameters(); }
  std::span<float> gradient() override { return flat_.gradient(); }
  std::span<float> buffers() override { return flat_.buffers(); }
  void compute_in(Precision precision) override { flat_.compute_in(precision); }

 protected:
  FlatModule flat_;
};

}  // namespace sotto
