#include "app/model/image_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/model/flat_module.h"
#include "app/model/image_network.h"
#include "app/model/library.h"

namespace sotto {
namespace {

void show(const at::Tensor& outputs, const ImageModel::SeeOutputs& see) {
  if (!see) return;
  const at::Tensor dense = outputs.detach().contiguous();
  see({dense.data_ptr<float>(), static_cast<std::size_t>(dense.numel())});
}

class NetworkModel final : public ModuleModel<ImageModel> {
 public:
  NetworkModel(std::string name, const ImageShape& shape, std::int64_t outputs, std::shared_ptr<ImageNetwork> network,
               Loss loss)
      : ModuleModel(std::move(name), network->trained()),
        shape_(shape),
        outputs_(outputs),
        network_(std::move(network)),
        loss_(loss) {}

  double accumulate_gradient(const Batch& batch, float scale, std::uint64_t random, const SegmentCalls& calls,
                             const SeeOutputs& see) override {
    check(batch);
    if (batch.count() == 0) throw ConfigError("the gradient of an empty batch does not exist");
    at::Tensor outputs;
    const double loss = flat_.accumulate_gradient(scale, calls, [&] {
      outputs = network_->forward(images_of(batch), random).to(at::kFloat);
      return loss_of(outputs, batch, at::Reduction::Mean, network_->options().label_smoothing);
    });
    show(outputs, see);
    return loss;
  }

  double evaluate(const Batch& batch, const SeeOutputs& see) override {
    check(batch);
    if (batch.count() == 0) return 0;
    return flat_.evaluate([&] {
      const at::Tensor outputs = network_->forward(images_of(batch), 0);
      show(outputs, see);
      return loss_of(outputs, batch, at::Reduction::Sum, 0);
    });
  }

 private:
  void check(const Batch& batch) const {
    if (batch.shape != shape_) {
      throw ConfigError(fmt::format(
          "model {} was made for images of {}x{}x{} (channels, height, width), these are {}x{}x{}", name(),
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
                                      batch.labels[i], name(), outputs_ - 1));
      }
    }
  }

  at::Tensor images_of(const Batch& batch) const {
    const auto [channels, height, width] = shape_;
    float* data = const_cast<float*>(batch.images.data());
    const std::vector<std::int64_t> sizes{static_cast<std::int64_t>(batch.count()), channels, height, width};
    // Channels-last order, which the following convolutions and poolings keep: LeNet trains 1.6 times as fast. With one
    // channel both orders have the same bytes, and only the strides tell torch which one is meant.
    const bool last = network_->options().channels_last;
    if (last && channels == 1) return at::from_blob(data, sizes, {height * width, 1, width, 1}, at::kFloat);
    const at::Tensor images = at::from_blob(data, sizes, at::kFloat);
    return last ? images.contiguous(at::MemoryFormat::ChannelsLast) : images;
  }

  at::Tensor loss_of(const at::Tensor& outputs, const Batch& batch, std::int64_t reduction, double smoothing) const {
    const at::Tensor labels = row_of(batch.labels);
    if (loss_ == Loss::cross_entropy) return at::cross_entropy_loss(outputs, labels, {}, reduction, -100, smoothing);
    return at::mse_loss(outputs.squeeze(1), labels.to(at::kFloat), reduction);
  }

  ImageShape shape_;
  std::int64_t outputs_;
  std::shared_ptr<ImageNetwork> network_;
  Loss loss_;
};

}  // namespace

std::unique_ptr<ImageModel> make_image_model(const ImageModelSpec& spec, ImageShape shape, std::int64_t outputs,
                                             std::uint64_t seed, Loss loss) {
  const ImageModelEntry& entry = *spec.entry;
  return with_place(spec, [&] {
    const std::string name = spec.source_text();
    if (shape.channels < 1 || shape.height < entry.least_side || shape.width < entry.least_side) {
      throw ConfigError(
          fmt::format("images must be at least {}x{} pixels, these are {}x{}x{} (channels, height, width)",
                      entry.least_side, entry.least_side, shape.channels, shape.height, shape.width));
    }
    if (outputs < 1) throw ConfigError(fmt::format("{} outputs; at least 1 is wanted", outputs));
    if (&entry == &library_entry()) seed_torch(seed);  // weights of all others come from initialise()
    return in_torch(name, [&] {
      std::shared_ptr<ImageNetwork> network = entry.make(spec.options, shape, outputs);
      if (loss != Loss::cross_entropy && network->options().label_smoothing > 0) {
        throw ConfigError("label-smoothing is for classes, and this task has none");
      }
      initialise(*network, seed);
      return std::make_unique<NetworkModel>(name, shape, outputs, std::move(network), loss);
    });
  });
}

bool FormOptions::for_large(const ImageShape& shape, std::int64_t least_side) const {
  constexpr std::int64_t largest_small = 64;
  const std::int64_t side = std::min(shape.height, shape.width);
  if (form == "cifar" || (form == "auto" && side <= largest_small)) return false;
  if (side >= least_side) return true;
  throw ConfigError(fmt::format("the ImageNet form wants images of at least {}x{} pixels, these are {}x{}", least_side,
                                least_side, shape.height, shape.width));
}

namespace {

constexpr ImageShape mnist{1, 28, 28};
constexpr ImageShape cifar{3, 32, 32};
constexpr ImageShape imagenet{3, 224, 224};

struct Usual {
  ImageShape shape;
  std::int64_t classes;
  std::int64_t least_side;
  double lr, momentum;
};

template <auto Make>
constexpr ImageModelEntry entry(std::string_view name, std::string_view summary, const Usual& usual,
                                AnyOptions (*options)() = Made<Make>::options) {
  return {name,     summary,        usual.shape, usual.classes,   usual.least_side,
          usual.lr, usual.momentum, options,     Made<Make>::make};
}

template <std::int64_t Depth>
AnyOptions resnet_of() {
  ResnetOptions options;
  options.depth = Depth;
  options.named = true;
  return options;
}

template <std::int64_t Depth, bool Norm>
AnyOptions vgg_of() {
  VggOptions options;
  options.depth = Depth;
  options.norm = Norm;
  return options;
}

AnyOptions mlp_options() {
  HiddenOptions options;
  options.hidden1 = options.hidden2 = 3232;
  return options;
}

constexpr Usual on_cifar_thin{cifar, 10, 8, 0.1, 0.9}, on_cifar{cifar, 10, 16, 0.1, 0.9},
    on_imagenet{imagenet, 1000, 16, 0.1, 0.9};
constexpr Usual plain_vgg{imagenet, 1000, 32, 0.01, 0.9}, norm_vgg{imagenet, 1000, 32, 0.05, 0.9};

constexpr std::array entries{
    entry<make_lenet>("lenet",
                      "Caffe's LeNet, with a ReLU after both poolings, which Caffe's has not: conv 20 and 50, fc 500; "
                      "431,080 parameters",
                      {mnist, 10, 16, 0.05, 0.9}),
    entry<make_mnist_cnn>("mnist-cnn", "conv 32 and 64, fc 1024, dropout 0.4; 3,274,634 parameters",
                          {mnist, 10, 4, 0.01, 0.9}),
    entry<make_fully_connected>("fc", "fully connected 800 and 500; 1,033,510 parameters", {mnist, 10, 1, 0.05, 0.9}),
    entry<make_fully_connected>("mlp", "fully connected 3232 and 3232; 13,018,506 parameters",
                                {mnist, 10, 1, 0.02, 0.9}, mlp_options),
    entry<make_logreg>("logreg", "logistic regression; 7,850 parameters", {mnist, 10, 1, 0.01, 0.9}),
    entry<make_resnet>("resnet", "ResNet of any depth, by default 18 on CIFAR; 11,173,962 parameters", on_cifar),
    entry<make_resnet>("resnet20", "thin ResNet for CIFAR; 269,722 parameters", on_cifar_thin, resnet_of<20>),
    entry<make_resnet>("resnet32", "thin ResNet for CIFAR; 464,154 parameters", on_cifar_thin, resnet_of<32>),
    entry<make_resnet>("resnet44", "thin ResNet for CIFAR; 658,586 parameters", on_cifar_thin, resnet_of<44>),
    entry<make_resnet>("resnet56", "thin ResNet for CIFAR; 853,018 parameters", on_cifar_thin, resnet_of<56>),
    entry<make_resnet>("resnet110", "thin ResNet for CIFAR; 1,727,962 parameters", on_cifar_thin, resnet_of<110>),
    entry<make_resnet>("resnet18", "ResNet-18, on CIFAR; 11,173,962 parameters", on_cifar, resnet_of<18>),
    entry<make_resnet>("resnet34", "ResNet-34, on CIFAR; 21,282,122 parameters", on_cifar, resnet_of<34>),
    entry<make_resnet>("resnet50", "ResNet-50, on ImageNet; 25,557,032 parameters", on_imagenet, resnet_of<50>),
    entry<make_resnet>("resnet101", "ResNet-101, on ImageNet; 44,549,160 parameters", on_imagenet, resnet_of<101>),
    entry<make_resnet>("resnet152", "ResNet-152, on ImageNet; 60,192,808 parameters", on_imagenet, resnet_of<152>),
    entry<make_vgg>("vgg11", "VGG-11, on ImageNet; 132,863,336 parameters", plain_vgg, vgg_of<11, false>),
    entry<make_vgg>("vgg13", "VGG-13, on ImageNet; 133,047,848 parameters", plain_vgg, vgg_of<13, false>),
    entry<make_vgg>("vgg16", "VGG-16, on ImageNet; 138,357,544 parameters", plain_vgg, vgg_of<16, false>),
    entry<make_vgg>("vgg19", "VGG-19, on ImageNet; 143,667,240 parameters", plain_vgg, vgg_of<19, false>),
    entry<make_vgg>("vgg11-bn", "VGG-11 with norms, on ImageNet; 132,868,840 parameters", norm_vgg, vgg_of<11, true>),
    entry<make_vgg>("vgg13-bn", "VGG-13 with norms, on ImageNet; 133,053,736 parameters", norm_vgg, vgg_of<13, true>),
    entry<make_vgg>("vgg16-bn", "VGG-16 with norms, on ImageNet; 138,365,992 parameters", norm_vgg, vgg_of<16, true>),
    entry<make_vgg>("vgg19-bn", "VGG-19 with norms, on ImageNet; 143,678,248 parameters", norm_vgg, vgg_of<19, true>),
    entry<make_alexnet>("alexnet", "AlexNet, on ImageNet; 61,100,840 parameters", {imagenet, 1000, 29, 0.01, 0.9}),
    entry<make_densenet121>("densenet121", "DenseNet-121, on ImageNet; 7,978,856 parameters",
                            {imagenet, 1000, 8, 0.1, 0.9}),
    entry<make_densenet_bc>("densenet-bc", "DenseNet-BC for CIFAR, by default (100, 12); 769,162 parameters",
                            {cifar, 10, 4, 0.1, 0.9}),
};
constexpr Table<ImageModelEntry> table("model", entries);

}  // namespace

const Table<ImageModelEntry>& image_model_table() { return table; }

}  // namespace sotto
