#pragma once

#include <cstdint>
#include <memory>

#include "sotto/core/batch.h"
#include "sotto/model/network.h"

namespace sotto {

// The builders in the table of model.cc. REQUIRES images of at least `least_side` of their table line.
std::shared_ptr<Network> build_lenet(const ImageShape& shape, std::int64_t outputs);
std::shared_ptr<Network> build_mnist_cnn(const ImageShape& shape, std::int64_t outputs);
std::shared_ptr<Network> build_fc(const ImageShape& shape, std::int64_t outputs);
std::shared_ptr<Network> build_mlp(const ImageShape& shape, std::int64_t outputs);
std::shared_ptr<Network> build_resnet18(const ImageShape& shape, std::int64_t outputs);
std::shared_ptr<Network> build_logreg(const ImageShape& shape, std::int64_t outputs);

}  // namespace sotto
