#include "sotto/data/cifar.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/data/pixels.h"

namespace sotto {
namespace {

constexpr ImageShape cifar_shape{3, 32, 32};
constexpr std::size_t pixels_each = 3 * 32 * 32;

// What a set of this form consists of.
struct CifarForm {
  std::string_view name, archive, folder;
  std::span<const std::string_view> train, test;  // files
  std::size_t records;                            // in a training file; a test file has 10,000
  std::array<std::uint8_t, 2> classes;            // of each label byte of a record; 0: there is no such byte
  Normalisation normalisation;

  std::size_t labels() const { return classes[0] > 0 ? 2 : 1; }
};

constexpr std::array<std::string_view, 5> train_10{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                   "data_batch_4.bin", "data_batch_5.bin"};
constexpr std::array<std::string_view, 1> test_10{"test_batch.bin"};
constexpr std::array<std::string_view, 1> train_100{"train.bin"};
constexpr std::array<std::string_view, 1> test_100{"test.bin"};
constexpr CifarForm cifar10{"CIFAR-10", "cifar-10-binary.tar.gz", "cifar-10-batches-bin", train_10, test_10, 10'000,
                            {0, 10},    cifar_normalisation};
constexpr CifarForm cifar100{"CIFAR-100", "cifar-100-binary.tar.gz", "cifar-100-binary", train_100, test_100, 50'000,
                             {20, 100},   cifar100_normalisation};

// Appends the labels of a file's `records` to `labels` and its images to `pixels`, whose full size is allocated
// beforehand.
void append_batch(const CifarForm& form, const std::filesystem::path& path, std::size_t records,
                  std::vector<std::uint8_t>& pixels, std::vector<std::uint8_t>& labels) {
  if (!path_exists(path)) {
    throw FileError(fmt::format("{}: no such file; unpack {} (https://www.cs.toronto.edu/~kriz/cifar.html) there",
                                path.string(), form.archive));
  }
  const std::vector<std::byte> bytes = read_file(path);
  const std::size_t record_bytes = form.labels() + pixels_each;
  const std::size_t wanted = records * record_bytes;
  if (bytes.size() != wanted) {
    throw FileError(fmt::format("{}: {}: {} bytes instead of {} ({} records of {} and 3x32x32 pixels)", path.string(),
                                bytes.size() < wanted ? "truncated" : "surplus bytes", bytes.size(), wanted, records,
                                form.labels() == 1 ? "a label" : "two labels"));
  }
  for (std::size_t i = 0; i < records; ++i) {
    const auto record = std::span(bytes).subspan(i * record_bytes, record_bytes);
    for (std::size_t which = 0; which < form.labels(); ++which) {
      const auto label = std::to_integer<std::uint8_t>(record[which]);
      const std::uint8_t classes = form.classes.at(which + 2 - form.labels());
      if (label >= classes) {
        throw FileError(fmt::format("{}: record {} has {}label {}, which is not in 0..{}", path.string(), i,
                                    which + 1 < form.labels() ? "coarse " : "", label, classes - 1));
      }
    }
    labels.push_back(std::to_integer<std::uint8_t>(record[form.labels() - 1]));
    std::memcpy(pixels.data() + (labels.size() - 1) * pixels_each, record.data() + form.labels(), pixels_each);
  }
}

std::unique_ptr<Dataset> open_cifar(const CifarForm& form, const DataOptions& options, Split split) {
  std::filesystem::path folder = options.data_dir;
  if (path_exists(folder / form.folder)) folder /= form.folder;
  const auto names = split == Split::train ? form.train : form.test;
  const std::size_t records = split == Split::train ? form.records : 10'000;
  const std::size_t count = chosen_size(options, split, names.size() * records, form.name);
  std::vector<std::uint8_t> pixels(names.size() * records * pixels_each);
  std::vector<std::uint8_t> labels;
  labels.reserve(names.size() * records);
  for (const auto name : names) append_batch(form, folder / name, records, pixels, labels);
  return std::make_unique<StoredDataset>(cifar_shape, form.classes[1], form.normalisation, count, std::move(pixels),
                                         std::move(labels));
}

}  // namespace

std::unique_ptr<Dataset> open_cifar10(const DataOptions& options, Split split) {
  return open_cifar(cifar10, options, split);
}

std::unique_ptr<Dataset> open_cifar100(const DataOptions& options, Split split) {
  return open_cifar(cifar100, options, split);
}

}  // namespace sotto
