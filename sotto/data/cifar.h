#pragma once

#include <memory>

#include "sotto/data/dataset.h"

namespace sotto {

// CIFAR-10 (Krizhevsky, 2009) from its binary version in options.data_dir or its folder cifar-10-batches-bin: files of
// 10,000 records, each a label byte and 3x32x32 pixels. FileError for a missing or malformed file.
std::unique_ptr<Dataset> open_cifar10(const DataOptions& options, Split split);

// CIFAR-100 likewise, from train.bin and test.bin or its folder cifar-100-binary. A record begins with the coarse label
// (20 groups), then the fine one, which is the example's.
std::unique_ptr<Dataset> open_cifar100(const DataOptions& options, Split split);

}  // namespace sotto
