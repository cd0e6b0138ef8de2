#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "app/model/model.h"
#include "sotto/core/examples.h"
#include "sotto/core/layout.h"
#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto {

// The loss of one example, from the outputs of the model and the label.
enum class Loss : std::uint8_t {
  cross_entropy,  // in nats; the outputs are logits of classes, the label is a class
  squared_error,  // (output - label)^2; there is one output
};

// A model from images to outputs.
class ImageModel : public Model {
 public:
  // Called with the outputs of a batch, one example after the other.
  using SeeOutputs = std::function<void(std::span<const float> outputs)>;

  // gradient() += scale * d(mean loss of the batch)/d(parameters); returns the mean loss. Dropout masks are a pure
  // function of `random`. calls.ready() is not called for segments that the loss does not depend on. `see`, if given,
  // gets the outputs of the training forward pass.
  virtual double accumulate_gradient(const Batch& batch, float scale, std::uint64_t random, const SegmentCalls& calls,
                                     const SeeOutputs& see = nullptr) = 0;
  // Returns the sum of the examples' losses, in evaluation mode, without gradients and without label smoothing. `see`
  // is not called for an empty batch.
  virtual double evaluate(const Batch& batch, const SeeOutputs& see = nullptr) = 0;
};

class ImageNetwork;  // the torch side of a model: app/model/image_network.h

// A line of the table of models of images.
struct ImageModelEntry {
  std::string_view name;
  std::string_view summary;  // one line, with its parameter count
  ImageShape shape;          // of the images that it is usually trained on
  std::int64_t classes;      // of these images
  std::int64_t least_side;   // the smallest height and width that the model's layers allow
  double default_lr;
  double default_momentum;
  AnyOptions (*options)();  // the default options
  // REQUIRES images of at least least_side. ConfigError if the options do not fit the images.
  std::shared_ptr<ImageNetwork> (*make)(const AnyOptions& options, const ImageShape& shape, std::int64_t outputs);
};
const Table<ImageModelEntry>& image_model_table();

using ImageModelSpec = Spec<ImageModelEntry>;

// The initial parameters depend on `seed` alone. ConfigError, about the option `model`, when images of this shape are
// too small or the options do not fit them.
std::unique_ptr<ImageModel> make_image_model(const ImageModelSpec& spec, ImageShape shape, std::int64_t outputs,
                                             std::uint64_t seed, Loss loss = Loss::cross_entropy);

}  // namespace sotto
