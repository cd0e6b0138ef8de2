#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "sotto/model/models.h"
#include "sotto/model/through.h"

namespace sotto {
namespace {

// A batch norm follows every convolution, so convolutions have no bias.
torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// A 1x1 convolution and its norm, where a block changes the shape of its input.
struct Shortcut final : torch::nn::Module {
  Shortcut(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv(register_module("0", convolution(in, out, 1, stride))),
        bn(register_module("1", torch::nn::BatchNorm2d(out))) {}

  at::Tensor forward(const at::Tensor& x) { return through(bn, through(conv, x)); }

  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d bn;
};

struct BasicBlock final : torch::nn::Module {
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", convolution(in, out, 3, stride))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(out))),
        conv2(register_module("conv2", convolution(out, out, 3, 1))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(out))) {
    if (in != out || stride != 1)
      downsample = register_module("downsample", std::make_shared<Shortcut>(in, out, stride));
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = through(bn2, through(conv2, through(bn1, through(conv1, x)).relu_()));
    return (y + (downsample ? downsample->forward(x) : x)).relu_();
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  std::shared_ptr<Shortcut> downsample;
};

// Two blocks; the first one may halve the image.
struct Stage final : torch::nn::Module {
  Stage(std::int64_t in, std::int64_t out, std::int64_t stride)
      : first(register_module("0", std::make_shared<BasicBlock>(in, out, stride))),
        second(register_module("1", std::make_shared<BasicBlock>(out, out, 1))) {}

  at::Tensor forward(const at::Tensor& x) { return second->forward(first->forward(x)); }

  std::shared_ptr<BasicBlock> first, second;
};

// ResNet-18 (He et al., CVPR 2016) as it is used on CIFAR: a 3x3 stem of stride 1 without pooling. Parameters are named
// as torchvision names them.
class Resnet18 final : public Network {
 public:
  Resnet18(const ImageShape& shape, std::int64_t outputs)
      : conv1_(register_module("conv1", convolution(shape.channels, 64, 3, 1))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(64))),
        layer1_(register_module("layer1", std::make_shared<Stage>(64, 64, 1))),
        layer2_(register_module("layer2", std::make_shared<Stage>(64, 128, 2))),
        layer3_(register_module("layer3", std::make_shared<Stage>(128, 256, 2))),
        layer4_(register_module("layer4", std::make_shared<Stage>(256, 512, 2))),
        fc_(register_module("fc", torch::nn::Linear(512, outputs))) {}

  at::Tensor forward(const at::Tensor& images, std::uint64_t /*random*/) override {
    at::Tensor x = through(bn1_, through(conv1_, images)).relu_();
    x = layer4_->forward(layer3_->forward(layer2_->forward(layer1_->forward(x))));
    return through(fc_, x.mean({2, 3}));
  }

  // Preserves the variance of gradients through a convolution and its ReLU (He et al., ICCV 2015, fan-out).
  double weight_bound(const at::Tensor& weight) const override {
    if (weight.dim() != 4) return Network::weight_bound(weight);
    const auto fan_out = static_cast<double>(weight.numel() / weight.size(1));
    return std::sqrt(6 / fan_out);
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  std::shared_ptr<Stage> layer1_, layer2_, layer3_, layer4_;
  torch::nn::Linear fc_;
};

}  // namespace

std::shared_ptr<Network> build_resnet18(const ImageShape& shape, std::int64_t outputs) {
  return std::make_shared<Resnet18>(shape, outputs);
}

}  // namespace sotto
