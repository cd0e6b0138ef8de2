#include "sotto/data/cifar.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/data/pixels.h"

namespace sotto {
namespace {

constexpr ImageShape cifar_shape{3, 32, 32};
constexpr std::size_t records = 10'000;
constexpr std::size_t pixels_each = 3 * 32 * 32;

// Appends a file's labels to `labels` and its images to `pixels`, whose full size is allocated beforehand.
void append_batch(const std::filesystem::path& path, std::vector<std::uint8_t>& pixels,
                  std::vector<std::uint8_t>& labels) {
  if (!path_exists(path)) {
    throw FileError(fmt::format(
        "{}: no such file; unpack cifar-10-binary.tar.gz (https://www.cs.toronto.edu/~kriz/cifar.html) there",
        path.string()));
  }
  const std::vector<std::byte> bytes = read_file(path);
  constexpr std::size_t wanted = records * (1 + pixels_each);
  if (bytes.size() != wanted) {
    throw FileError(fmt::format("{}: {}: {} bytes instead of {} ({} records of a label and 3x32x32 pixels)",
                                path.string(), bytes.size() < wanted ? "truncated" : "surplus bytes", bytes.size(),
                                wanted, records));
  }
  for (std::size_t i = 0; i < records; ++i) {
    const auto record = std::span(bytes).subspan(i * (1 + pixels_each), 1 + pixels_each);
    const auto label = std::to_integer<std::uint8_t>(record[0]);
    if (label > 9) {
      throw FileError(fmt::format("{}: record {} has label {}, which is not in 0..9", path.string(), i, label));
    }
    labels.push_back(label);
    std::memcpy(pixels.data() + (labels.size() - 1) * pixels_each, record.data() + 1, pixels_each);
  }
}

}  // namespace

std::unique_ptr<Dataset> open_cifar10(const DataOptions& options, Split split) {
  std::filesystem::path folder = options.data_dir;
  if (path_exists(folder / "cifar-10-batches-bin")) folder /= "cifar-10-batches-bin";
  std::vector<std::string> names{"test_batch.bin"};
  if (split == Split::train) {
    names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
  }
  const std::size_t count = chosen_size(options, split, names.size() * records, "CIFAR-10");
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  pixels.resize(names.size() * records * pixels_each);
  labels.reserve(names.size() * records);
  for (const auto& name : names) append_batch(folder / name, pixels, labels);
  return std::make_unique<StoredDataset>(cifar_shape, 10, cifar_normalisation, count, std::move(pixels),
                                         std::move(labels));
}

}  // namespace sotto
