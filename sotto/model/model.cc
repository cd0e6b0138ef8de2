#include "sotto/model/model.h"

#include <fmt/format.h>

#include <array>

#include "sotto/core/error.h"
#include "sotto/core/table.h"
#include "sotto/model/flat_model.h"
#include "sotto/model/models.h"

namespace sotto {
namespace {

constexpr ImageShape mnist{1, 28, 28};
constexpr ImageShape cifar{3, 32, 32};

// name, summary, usual images, least side, learning rate, momentum, builder
constexpr std::array entries{
    ModelEntry{"lenet", "Caffe's LeNet: conv 20 and 50, fc 500; 431,080 parameters", mnist, 16, 0.05, 0.9, build_lenet},
    ModelEntry{"mnist-cnn", "conv 32 and 64, fc 1024, dropout 0.4; 3,274,634 parameters", mnist, 4, 0.01, 0.9,
               build_mnist_cnn},
    ModelEntry{"fc", "fully connected 800 and 500; 1,033,510 parameters", mnist, 1, 0.05, 0.9, build_fc},
    ModelEntry{"mlp", "fully connected 3232 and 3232; 13,018,506 parameters", mnist, 1, 0.02, 0.9, build_mlp},
    ModelEntry{"resnet18", "ResNet-18 in CIFAR form; 11,173,962 parameters", cifar, 16, 0.1, 0.9, build_resnet18},
    ModelEntry{"logreg", "logistic regression; 7,850 parameters", mnist, 1, 0.01, 0.9, build_logreg},
};
constexpr Table<ModelEntry> table("model", entries);

}  // namespace

const Table<ModelEntry>& model_table() { return table; }

std::unique_ptr<Model> make_model(const ModelEntry& entry, ImageShape shape, std::int64_t outputs, std::uint64_t seed,
                                  Loss loss) {
  if (shape.channels < 1 || shape.height < entry.least_side || shape.width < entry.least_side) {
    throw ConfigError(fmt::format(
        "{}: images must be at least {}x{} pixels, these are {}x{}x{} (channels, height, width)",
        named("model", entry.name), entry.least_side, entry.least_side, shape.channels, shape.height, shape.width));
  }
  if (outputs < 1) {
    throw ConfigError(fmt::format("{}: {} outputs; at least 1 is wanted", named("model", entry.name), outputs));
  }
  std::shared_ptr<Network> network = entry.build(shape, outputs);
  initialise(*network, seed);
  return std::make_unique<FlatModel>(std::string(entry.name), shape, outputs, std::move(network), loss);
}

}  // namespace sotto
