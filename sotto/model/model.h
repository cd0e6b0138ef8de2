#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sotto/core/batch.h"
#include "sotto/core/layout.h"
#include "sotto/core/segment_calls.h"
#include "sotto/core/table.h"

namespace sotto {

// The loss of one example, from the outputs of the model and the label.
enum class Loss : std::uint8_t {
  cross_entropy,  // in nats; the outputs are logits of classes, the label is a class
  squared_error,  // (output - label)^2; there is one output
};

// A model of images as flat vectors: parameters, gradient, and buffers (batch-norm statistics). Every torch parameter,
// its .grad and every float buffer is a view into them, so the network computes with the values written here. This
// header does not include torch.
class Model {
 public:
  virtual ~Model() = default;

  using Calls = SegmentCalls;

  virtual const std::string& name() const = 0;
  virtual const Layout& layout() const = 0;         // in registration order
  virtual const Layout& buffer_layout() const = 0;  // floats only; counters such as num_batches_tracked are left out
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradient() = 0;
  virtual std::span<float> buffers() = 0;

  // Sees the outputs of a batch, as many for each example, one example after the other.
  using SeeOutputs = std::function<void(std::span<const float> outputs)>;

  // gradient() += scale * d(mean loss of the batch)/d(parameters); returns the mean loss. Dropout masks are a pure
  // function of `random`. calls.ready() is not called for segments that the loss does not depend on. `see`, if given,
  // gets the outputs of the training forward pass.
  virtual double accumulate_gradient(const Batch& batch, float scale, std::uint64_t random, const Calls& calls,
                                     const SeeOutputs& see = nullptr) = 0;
  // Returns the sum of the examples' losses, in evaluation mode, without gradients. `see` is not called for an empty
  // batch.
  virtual double evaluate(const Batch& batch, const SeeOutputs& see = nullptr) = 0;
};

class Network;  // the torch side of a model: sotto/model/network.h

// A line of the table of models.
struct ModelEntry {
  std::string_view name;
  std::string_view summary;  // one line, with its parameter count
  ImageShape shape;          // of the images that it is usually trained on
  std::int64_t least_side;   // the smallest height and width that its convolutions and poolings allow
  double default_lr;
  double default_momentum;
  std::shared_ptr<Network> (*build)(const ImageShape& shape, std::int64_t outputs);
};
const Table<ModelEntry>& model_table();

// The initial parameters depend on `seed` alone. ConfigError, about the option `model`, when images of this shape are
// too small.
std::unique_ptr<Model> make_model(const ModelEntry& entry, ImageShape shape, std::int64_t outputs, std::uint64_t seed,
                                  Loss loss = Loss::cross_entropy);

}  // namespace sotto
