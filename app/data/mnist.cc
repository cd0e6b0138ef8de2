#include "app/data/mnist.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "app/data/idx.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::uint32_t usual_side = 28, longest_side = 4096;

std::filesystem::path find_file(const std::filesystem::path& folder, std::string_view stem, std::string_view kind,
                                std::string_view hint) {
  for (const char separator : {'-', '.'}) {
    for (const std::string_view suffix : {"", ".gz"}) {
      auto path = folder / fmt::format("{}{}{}{}", stem, separator, kind, suffix);
      if (path_exists(path)) return path;
    }
  }
  throw FileError(fmt::format("{}: no such file, gzipped (.gz) or not{}",
                              (folder / fmt::format("{}-{}", stem, kind)).string(), hint));
}

}  // namespace

std::string MnistForm::stem(Split split) const {
  const bool emnist = name.starts_with("emnist-");
  const std::string_view part = split == Split::train ? "train" : emnist ? "test" : "t10k";
  return emnist ? fmt::format("{}-{}", name, part) : std::string(part);
}

const MnistForm& mnist_form(std::string_view name) { return *std::ranges::find(mnist_forms, name, &MnistForm::name); }

std::unique_ptr<Dataset> open_mnist(const DataOptions& options, Split split) {
  const MnistForm& form = mnist_form(options.data);
  const std::string stem = form.stem(split);
  const auto images_path = find_file(options.data_dir, stem + "-images", "idx3-ubyte", form.hint);
  const auto labels_path = find_file(options.data_dir, stem + "-labels", "idx1-ubyte", form.hint);
  Idx images = read_idx(images_path, 3);
  Idx labels = read_idx(labels_path, 1);
  const std::uint32_t height = images.shape[1], width = images.shape[2];
  if (std::min(height, width) == 0 || std::max(height, width) > longest_side) {
    throw FileError(fmt::format("{}: images of {}x{} pixels", images_path.string(), height, width));
  }
  if (images.shape[0] != labels.shape[0]) {
    throw FileError(fmt::format("{} holds {} images, but {} holds {} labels", images_path.string(), images.shape[0],
                                labels_path.string(), labels.shape[0]));
  }
  if (images.shape[0] == 0) throw FileError(fmt::format("{}: holds no images", images_path.string()));
  const auto wrong = std::ranges::find_if(
      labels.values, [&](std::uint8_t label) { return label < form.first_label || label >= form.classes; });
  if (wrong != labels.values.end()) {
    throw FileError(fmt::format("{}: label {} is {}, which is not in {}..{}", labels_path.string(),
                                wrong - labels.values.begin(), *wrong, form.first_label, form.classes - 1));
  }
  const std::size_t count = chosen_size(options, split, images.shape[0], images_path.string());
  std::string remark;
  if (height != usual_side || width != usual_side) {
    remark = fmt::format("{}: images of {}x{} pixels; images of {} as published have {}x{}", images_path.string(),
                         height, width, form.name, usual_side, usual_side);
  }
  return std::make_unique<StoredDataset>(ImageShape{1, height, width}, form.classes, form.normalisation, count,
                                         std::move(images.values), std::move(labels.values), std::move(remark));
}

}  // namespace sotto
