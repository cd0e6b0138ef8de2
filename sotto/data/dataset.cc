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

constexpr std::array table{
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

}  // namespace

std::span<const DatasetEntry> dataset_table() { return table; }

std::unique_ptr<Dataset> open_dataset(const DataOptions& options, Split split) {
  const DatasetEntry* entry = find_entry(dataset_table(), options.data);
  if (entry == nullptr) {
    throw ConfigError("--data: " + unknown_name("data set", options.data, names_of(dataset_table())));
  }
  const bool from_files = !entry->files.empty();
  if (from_files && options.data_dir.empty()) {
    throw ConfigError(fmt::format("--data {} needs --data-dir, the folder that holds {}", options.data, entry->files));
  }
  if (!from_files && !options.data_dir.empty()) {
    throw ConfigError(
        fmt::format("--data-dir {}: {} is made, and reads no files; leave it out", options.data_dir, options.data));
  }
  if (from_files && options.data_seed != DataOptions{}.data_seed) {
    throw ConfigError(fmt::format("--data-seed {}: {} is read from files, and has no seed; leave it out",
                                  options.data_seed, options.data));
  }
  return entry->open(options, split);
}

}  // namespace sotto
