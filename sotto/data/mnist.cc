#include "sotto/data/mnist.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/data/idx.h"
#include "sotto/data/pixels.h"

namespace sotto {
namespace {

constexpr ImageShape mnist_shape{1, 28, 28};

std::filesystem::path find_file(const std::filesystem::path& folder, std::string_view stem, std::string_view kind) {
  for (const char separator : {'-', '.'}) {
    for (const std::string_view suffix : {"", ".gz"}) {
      auto path = folder / fmt::format("{}{}{}{}", stem, separator, kind, suffix);
      if (path_exists(path)) return path;
    }
  }
  throw FileError(fmt::format("{}: no such file, gzipped (.gz) or not; `sotto data get mnist` downloads it",
                              (folder / fmt::format("{}-{}", stem, kind)).string()));
}

}  // namespace

std::unique_ptr<Dataset> open_mnist(const DataOptions& options, Split split) {
  const std::string name = split == Split::train ? "train" : "t10k";
  const auto images_path = find_file(options.data_dir, name + "-images", "idx3-ubyte");
  const auto labels_path = find_file(options.data_dir, name + "-labels", "idx1-ubyte");
  Idx images = read_idx(images_path, 3);
  Idx labels = read_idx(labels_path, 1);
  if (images.shape[1] != 28 || images.shape[2] != 28) {
    throw FileError(fmt::format("{}: images of {}x{} pixels instead of 28x28", images_path.string(), images.shape[1],
                                images.shape[2]));
  }
  if (images.shape[0] != labels.shape[0]) {
    throw FileError(fmt::format("{} holds {} images, but {} holds {} labels", images_path.string(), images.shape[0],
                                labels_path.string(), labels.shape[0]));
  }
  if (images.shape[0] == 0) throw FileError(fmt::format("{}: holds no images", images_path.string()));
  const auto wrong = std::find_if(labels.values.begin(), labels.values.end(), [](std::uint8_t v) { return v > 9; });
  if (wrong != labels.values.end()) {
    throw FileError(
        fmt::format("{}: label {} is {}, not a digit", labels_path.string(), wrong - labels.values.begin(), *wrong));
  }
  const std::size_t count = chosen_size(options, split, images.shape[0], images_path.string());
  return std::make_unique<StoredDataset>(mnist_shape, 10, mnist_normalisation, count, std::move(images.values),
                                         std::move(labels.values));
}

}  // namespace sotto
