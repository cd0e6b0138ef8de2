#pragma once

#include <memory>

#include "app/data/dataset.h"

namespace sotto {

// CIFAR-10 (Krizhevsky, 2009) from options.data_dir. The binary version, there or in the folder cifar-10-batches-bin,
// has files of 10,000 records, each a label byte and 3x32x32 pixels. The Python version, there or in the folder
// cifar-10-batches-py, has pickled dictionaries with `data` and `labels`. FileError for a missing or malformed file.
std::unique_ptr<Dataset> open_cifar10(const DataOptions& options, Split split);

// CIFAR-100 likewise, from train.bin and test.bin, train and test, or the folders cifar-100-binary and
// cifar-100-python. A binary record begins with the coarse label (20 groups); then comes the fine one, which is used.
std::unique_ptr<Dataset> open_cifar100(const DataOptions& options, Split split);

}  // namespace sotto
