#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "app/model/network.h"
#include "sotto/core/batch.h"
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

  // The module whose parameters are trained: this one, unless it stands for another, as the one for a user's library
  // does.
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

}  // namespace sotto
