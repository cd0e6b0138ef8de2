#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sotto/model/model.h"
#include "sotto/model/network.h"

namespace sotto {

// A network whose parameters, gradients and float buffers were moved into three flat vectors. Invariants: every
// parameter, its .grad (never undefined) and every float buffer is a contiguous view into its vector at the offset that
// the layout gives; padding is zero.
class FlatModel final : public Model {
 public:
  FlatModel(std::string name, const ImageShape& shape, std::int64_t outputs, std::shared_ptr<Network> network,
            Loss loss);
  ~FlatModel() override;

  const std::string& name() const override { return name_; }
  const Layout& layout() const override { return layout_; }
  const Layout& buffer_layout() const override { return buffer_layout_; }
  std::span<float> parameters() override { return span_of(parameters_); }
  std::span<float> gradient() override { return span_of(gradient_); }
  std::span<float> buffers() override { return span_of(buffers_); }

  double accumulate_gradient(const Batch& batch, float scale, std::uint64_t random, const Calls& calls,
                             const SeeOutputs& see) override;
  double evaluate(const Batch& batch, const SeeOutputs& see) override;

 private:
  class ReadyHook;
  class Running;
  static std::span<float> span_of(const at::Tensor& flat);
  void bind_parameters();
  void bind_buffers();
  void announce(const torch::nn::Module& module);
  void check(const Batch& batch) const;
  at::Tensor images_of(const Batch& batch) const;
  at::Tensor loss_of(const at::Tensor& outputs, const Batch& batch, std::int64_t reduction) const;

  std::string name_;
  ImageShape shape_;
  std::int64_t outputs_;
  std::shared_ptr<Network> network_;
  Loss loss_;
  Layout layout_, buffer_layout_;
  at::Tensor parameters_, gradient_, buffers_;  // flat; torch's CPU allocator aligns them to 64 bytes
  std::unordered_map<const torch::nn::Module*, std::vector<std::size_t>> segments_of_;  // without its children's
  const Calls* calls_ = nullptr;  // set while a gradient is computed
  std::vector<char> announced_;   // for each segment, whether calls_->needed was called for this gradient
};

}  // namespace sotto
