#include "app/model/image_model.h"

#include <fmt/format.h>

#include <utility>

#include "app/model/flat_module.h"
#include "app/model/image_network.h"
#include "app/model/library.h"
#include "app/model/torch_error.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

at::Tensor labels_of(const Batch& batch) {
  return at::from_blob(const_cast<std::int64_t*>(batch.labels.data()), {static_cast<std::int64_t>(batch.count())},
                       at::kLong);
}

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
  void check(const Batch& batch) const;
  at::Tensor images_of(const Batch& batch) const;
  at::Tensor loss_of(const at::Tensor& outputs, const Batch& batch, std::int64_t reduction, double smoothing) const;

  ImageShape shape_;
  std::int64_t outputs_;
  std::shared_ptr<ImageNetwork> network_;
  Loss loss_;
};

void NetworkModel::check(const Batch& batch) const {
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

at::Tensor NetworkModel::images_of(const Batch& batch) const {
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

at::Tensor NetworkModel::loss_of(const at::Tensor& outputs, const Batch& batch, std::int64_t reduction,
                                 double smoothing) const {
  const at::Tensor labels = labels_of(batch);
  if (loss_ == Loss::cross_entropy) return at::cross_entropy_loss(outputs, labels, {}, reduction, -100, smoothing);
  return at::mse_loss(outputs.squeeze(1), labels.to(at::kFloat), reduction);
}

}  // namespace

std::unique_ptr<ImageModel> make_image_model(const ImageModelSpec& spec, ImageShape shape, std::int64_t outputs,
                                             std::uint64_t seed, Loss loss) {
  const ImageModelEntry& entry = *spec.entry;
  return with_place(spec, [&] {
    const std::string name = spec.said();
    if (shape.channels < 1 || shape.height < entry.least_side || shape.width < entry.least_side) {
      throw ConfigError(
          fmt::format("images must be at least {}x{} pixels, these are {}x{}x{} (channels, height, width)",
                      entry.least_side, entry.least_side, shape.channels, shape.height, shape.width));
    }
    if (outputs < 1) throw ConfigError(fmt::format("{} outputs; at least 1 is wanted", outputs));
    if (&entry == &library_entry()) seed_torch(seed);  // the others have no weights before initialise()
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

}  // namespace sotto
