#include "app/data/images/dataset.h"

#include <fmt/format.h>

#include "app/data/images/mnist.h"

namespace sotto {
namespace {

constexpr std::string_view mnist_files =
    "the four IDX files, gzipped or not: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
    "t10k-labels-idx1-ubyte";
constexpr std::string_view emnist_files =
    "the four IDX files of this split, gzipped or not: NAME-train-images-idx3-ubyte, NAME-train-labels-idx1-ubyte, "
    "NAME-test-images-idx3-ubyte, NAME-test-labels-idx1-ubyte";

constexpr std::array entries{
    DatasetEntry{"digits", "generated handwritten-looking digits, 28x28, 10 classes, 60,000 + 10,000 or any other size",
                 "", open_digits},
    DatasetEntry{"mnist", "handwritten digits, 28x28, 10 classes, 60,000 + 10,000", mnist_files, open_mnist},
    DatasetEntry{"fashion-mnist", "clothes in MNIST's form, 10 classes, 60,000 + 10,000", mnist_files, open_mnist},
    DatasetEntry{"kmnist", "cursive Japanese characters in MNIST's form, 10 classes, 60,000 + 10,000", mnist_files,
                 open_mnist},
    DatasetEntry{"emnist-balanced", "letters and digits, 28x28, 47 classes, 112,800 + 18,800", emnist_files,
                 open_mnist},
    DatasetEntry{"emnist-byclass", "letters and digits, 28x28, 62 classes, 697,932 + 116,323", emnist_files,
                 open_mnist},
    DatasetEntry{"emnist-bymerge", "letters and digits, 28x28, 47 classes, 697,932 + 116,323", emnist_files,
                 open_mnist},
    DatasetEntry{"emnist-digits", "digits, 28x28, 10 classes, 240,000 + 40,000", emnist_files, open_mnist},
    DatasetEntry{"emnist-letters", "letters, 28x28, classes 1 to 26 of 27, 124,800 + 20,800", emnist_files, open_mnist},
    DatasetEntry{"emnist-mnist", "digits, 28x28, 10 classes, 60,000 + 10,000", emnist_files, open_mnist},
    DatasetEntry{"cifar10", "photographs, 3x32x32, 10 classes, 50,000 + 10,000",
                 "the binary version, packed by gzip or xz, or not: data_batch_1.bin to data_batch_5.bin and "
                 "test_batch.bin, here or in cifar-10-batches-bin; or the Python version, without .bin, here or in "
                 "cifar-10-batches-py",
                 open_cifar10},
    DatasetEntry{"cifar100", "photographs, 3x32x32, 100 classes, 50,000 + 10,000",
                 "the binary version, packed by gzip or xz, or not: train.bin and test.bin, here or in "
                 "cifar-100-binary; or the Python version, train and test, here or in cifar-100-python",
                 open_cifar100},
    DatasetEntry{"svhn", "digits of house numbers, 3x32x32, 10 classes, 73,257 + 26,032",
                 "train_32x32.mat and test_32x32.mat", open_svhn},
    DatasetEntry{"folder", "pictures of any size, JPEG or PNG, as ImageNet: a folder for each class",
                 "train/CLASS/NAME.jpg and val/CLASS/NAME.jpg (or test/), .jpeg or .png; or the file that `sotto data "
                 "prepare folder` packs them into",
                 open_pictures},
    DatasetEntry{"made-cifar",
                 "generated shapes with coloured gratings in CIFAR's form, 50,000 + 10,000 or any other size", "",
                 open_made_cifar},
    DatasetEntry{"made-images", "the same with ImageNet's shape, 3x224x224, 2,000 + 400 or any other size", "",
                 open_made_images},
};
constexpr Table<DatasetEntry> table("data set", entries);

}  // namespace

std::string Dataset::class_name(std::int64_t label) const { return std::to_string(label); }

void Dataset::read_crop(std::size_t /*index*/, Philox& /*random*/, std::span<float> /*image*/,
                        std::int64_t& /*label*/) const {
  throw std::logic_error("Dataset::read_crop: these images are not decoded when they are read");
}

const Table<DatasetEntry>& dataset_table() { return table; }

std::unique_ptr<Dataset> open_dataset(const DataOptions& options, Split split) {
  std::unique_ptr<Dataset> data = open_source(table, "images", options, split);
  const ImageShape shape = data->shape();
  if (options.image_size && *options.image_size != shape.height) {
    throw ConfigError(fmt::format("{}: the images of these data have {}x{} pixels; leave it out",
                                  named("image-size", std::to_string(*options.image_size)), shape.height, shape.width));
  }
  if (options.strict && !data->decodes()) {
    throw ConfigError(named("strict") + ": is for pictures in files, and these data are none; leave it out");
  }
  return data;
}

}  // namespace sotto
