#pragma once

#include <memory>

#include "sotto/data/dataset.h"

namespace sotto {

// MNIST from its four IDX files in options.data_dir, gzipped or not, named as their authors do
// (train-images-idx3-ubyte) or with a dot (train-images.idx3-ubyte). FileError for a missing or malformed file.
std::unique_ptr<Dataset> open_mnist(const DataOptions& options, Split split);

}  // namespace sotto
