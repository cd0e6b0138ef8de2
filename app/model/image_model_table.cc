#include <array>

#include "app/model/image_model.h"
#include "app/model/image_networks.h"

namespace sotto {
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
