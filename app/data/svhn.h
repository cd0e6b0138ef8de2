#pragma once

#include <memory>

#include "app/data/dataset.h"

namespace sotto {

// The cropped digits of Street View House Numbers (Netzer et al., 2011) from train_32x32.mat and test_32x32.mat in
// options.data_dir. The label of a digit is the digit: the files have 10 for 0. FileError for a missing or malformed
// file.
std::unique_ptr<Dataset> open_svhn(const DataOptions& options, Split split);

}  // namespace sotto
