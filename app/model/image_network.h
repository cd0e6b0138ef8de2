#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "app/model/network.h"
#include "sotto/core/examples.h"
#include "sotto/core/options.h"

namespace sotto {

// Options of every model of images.
struct ImageOptions {
  double label_smoothing = 0;
  bool binarise = false;
  std::optional<double> classifier_std;
  bool channels_last = true;
  void visit(OptionVisitor& v) {
    v.option("label-smoothing", label_smoothing, "share of the label's weight that all classes get, in training",
             Bounds{0, 1, false, true});
    v.option("binarise", binarise,
             "forward with the signs of weights, in all but the first and the last layer (BinaryConnect)");
    v.option("classifier-std", classifier_std,
             "draw the last layer's weights from N(0, std^2); auto: as the model does", Bounds::positive());
    v.option("channels-last", channels_last, "hold images and activations in the order height, width, channels");
  }
};

// Base class of all networks from images to outputs.
class ImageNetwork : public Network {
 public:
  explicit ImageNetwork(ImageOptions options, std::string classifier)
      : options_(std::move(options)), classifier_(std::move(classifier)) {}

  // (count, channels, height, width) -> (count, outputs). `images` is borrowed and must not be written to. Random
  // numbers, if any, are a pure function of `random`.
  virtual at::Tensor forward(const at::Tensor& images, std::uint64_t random) = 0;

  // The module whose parameters are trained: this one, unless it wraps another, such as the network of a user's
  // library.
  virtual std::shared_ptr<torch::nn::Module> trained() { return shared_from_this(); }

  const ImageOptions& options() const { return options_; }
  InitialWeight initial(std::string_view layer, const at::Tensor& weight) const final {
    if (layer == classifier_ && options_.classifier_std) return InitialWeight::normal(*options_.classifier_std);
    return usual(layer, weight);
  }

 protected:
  // See Network::initial().
  virtual InitialWeight usual(std::string_view layer, const at::Tensor& weight) const {
    return Network::initial(layer, weight);
  }

 private:
  ImageOptions options_;
  std::string classifier_;  // the name of the last layer
};

// Options of models that have one form for small images, such as CIFAR's, and one for large ones, such as ImageNet's.
struct FormOptions : ImageOptions {
  std::string form = "auto";
  void visit(OptionVisitor& v) {
    v.option("form", form, "for small images or for large ones; auto: cifar for sides of up to 64 pixels",
             {"auto", "cifar", "imagenet"});
    ImageOptions::visit(v);
  }
  // Whether the form is ImageNet's, for images of this shape. ConfigError if they are smaller than that form allows.
  bool for_large(const ImageShape& shape, std::int64_t least_side) const;
};

// The builders in the table of image_model.cc. `shape` and `outputs` as ImageModelEntry says.
using MadeNetwork = std::shared_ptr<ImageNetwork>;

MadeNetwork make_lenet(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs);
MadeNetwork make_mnist_cnn(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs);
MadeNetwork make_logreg(const ImageOptions& options, const ImageShape& shape, std::int64_t outputs);

struct HiddenOptions : ImageOptions {
  std::int64_t hidden1 = 800, hidden2 = 500;
  void visit(OptionVisitor& v) {
    v.option("hidden1", hidden1, "units of the first hidden layer", Bounds{1, 1e6});
    v.option("hidden2", hidden2, "units of the second hidden layer", Bounds{1, 1e6});
    ImageOptions::visit(v);
  }
};
MadeNetwork make_fully_connected(const HiddenOptions& options, const ImageShape& shape, std::int64_t outputs);

struct ResnetOptions : FormOptions {
  std::int64_t depth = 18;
  bool named = false;  // the model's name says the depth
  double width = 1;
  bool zero_gamma = false;
  void visit(OptionVisitor& v) {
    if (!named) {
      v.option("depth", depth, "18, 34, 50, 101, 152; or 6n+2 (8, 14, 20 ...), the thin form for CIFAR",
               Bounds{8, 1202});
    }
    v.option("width", width, "factor of the channels of 3x3 convolutions", Bounds{0.0625, 16});
    v.option("zero-gamma", zero_gamma, "start the last norm of each block at 0, so that blocks begin as identities");
    FormOptions::visit(v);
  }
  std::string problem() const;
};
MadeNetwork make_resnet(const ResnetOptions& options, const ImageShape& shape, std::int64_t outputs);

struct VggOptions : FormOptions {
  std::int64_t depth = 11;  // 11, 13, 16 or 19; this and the next are in the model's name
  bool norm = false;        // a batch norm after each convolution
  double width = 1;
  void visit(OptionVisitor& v) {
    v.option("width", width, "factor of all channels and hidden units", Bounds{0.0625, 16});
    FormOptions::visit(v);
  }
};
MadeNetwork make_vgg(const VggOptions& options, const ImageShape& shape, std::int64_t outputs);

// channels_last is off, because poolings leave a few pixels of small images, and for these it costs too much to reorder
// the weights in each step.
struct AlexnetOptions : FormOptions {
  AlexnetOptions() { channels_last = false; }
};
MadeNetwork make_alexnet(const AlexnetOptions& options, const ImageShape& shape, std::int64_t outputs);

MadeNetwork make_densenet121(const FormOptions& options, const ImageShape& shape, std::int64_t outputs);

struct DensenetBcOptions : ImageOptions {
  std::int64_t depth = 100, growth = 12;
  void visit(OptionVisitor& v) {
    v.option("depth", depth, "6n+4 (22, 40, 100, 190, 250 ...)", Bounds{10, 1204});
    v.option("growth", growth, "channels that each layer adds", Bounds{1, 256});
    ImageOptions::visit(v);
  }
  std::string problem() const;
};
// Three blocks with bottlenecks and compression, for small images.
MadeNetwork make_densenet_bc(const DensenetBcOptions& options, const ImageShape& shape, std::int64_t outputs);

}  // namespace sotto
