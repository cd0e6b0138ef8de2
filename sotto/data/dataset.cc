#include "sotto/data/dataset.h"

#include <fmt/format.h>

#include <array>

#include "sotto/core/error.h"
#include "sotto/core/table.h"
#include "sotto/data/cifar.h"
#include "sotto/data/digits.h"
#include "sotto/data/made_cifar.h"
#include "sotto/data/mnist.h"

namespace sotto {
namespace {

constexpr std::array entries{
    DatasetEntry{"digits", "made handwritten-looking digits, 28x28, 10 classes, 60,000 + 10,000 or any other size", "",
                 open_digits},
    DatasetEntry{"mnist", "handwritten digits, 28x28, 10 classes, 60,000 + 10,000",
                 "the four IDX files, gzipped or not: train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                 "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte",
                 open_mnist},
    DatasetEntry{"cifar10", "photographs, 3x32x32, 10 classes, 50,000 + 10,000",
                 "the binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin, here or in "
                 "cifar-10-batches-bin",
                 open_cifar10},
    DatasetEntry{"made-cifar", "made shapes with coloured gratings in CIFAR's form, 50,000 + 10,000 or any other size",
                 "", open_made_cifar},
};
constexpr Table<DatasetEntry> table("data set", entries);

}  // namespace

const Table<DatasetEntry>& dataset_table() { return table; }

std::unique_ptr<Dataset> open_dataset(const DataOptions& options, Split split) {
  const DatasetEntry& entry = table.require("data", options.data);
  const bool from_files = !entry.files.empty();
  if (from_files && options.data_dir.empty()) {
    throw ConfigError(fmt::format("{} needs {}, the folder that holds {}", named("data", options.data),
                                  named("data-dir"), entry.files));
  }
  if (!from_files && !options.data_dir.empty()) {
    throw ConfigError(fmt::format("{}: {} is made, and reads no files; leave it out",
                                  named("data-dir", options.data_dir), options.data));
  }
  if (from_files && options.data_seed != DataOptions{}.data_seed) {
    throw ConfigError(fmt::format("{}: {} is read from files, and has no seed; leave it out",
                                  named("data-seed", std::to_string(options.data_seed)), options.data));
  }
  return entry.open(options, split);
}

}  // namespace sotto
