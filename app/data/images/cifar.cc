#include "app/data/images/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "app/data/images/pickle.h"
#include "app/data/images/pixels.h"
#include "app/data/unpack.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr ImageShape cifar_shape{3, 32, 32};
constexpr std::size_t pixels_each = 3 * 32 * 32;

// The files and classes of a set in this format.
struct CifarForm {
  std::string_view name, archive, folder, pickled_folder;
  bool numbered;                        // files data_batch_1 to data_batch_5 and test_batch, not train and test
  std::array<std::uint8_t, 2> classes;  // of each label byte of a record; 0: there is no such byte
  Normalisation normalisation;
  std::string_view pickled_labels;

  std::size_t labels() const { return classes[0] > 0 ? 2 : 1; }
  // The files of a split; only names of the binary version end in .bin.
  std::vector<std::string> files(Split split) const {
    if (!numbered) return {split == Split::train ? "train" : "test"};
    if (split == Split::test) return {"test_batch"};
    return {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"};
  }
};

constexpr CifarForm cifar10{"CIFAR-10",
                            "cifar-10-binary.tar.gz",
                            "cifar-10-batches-bin",
                            "cifar-10-batches-py",
                            true,
                            {0, 10},
                            cifar_normalisation,
                            "labels"};
constexpr CifarForm cifar100{"CIFAR-100", "cifar-100-binary.tar.gz", "cifar-100-binary", "cifar-100-python", false,
                             {20, 100},   cifar100_normalisation,    "fine_labels"};

// The labels and images of a split.
struct Examples {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  void append(std::uint8_t label, std::span<const std::byte> image) {
    labels.push_back(label);
    const auto* first = reinterpret_cast<const std::uint8_t*>(image.data());
    pixels.insert(pixels.end(), first, first + pixels_each);
  }
};

void append_binary(const CifarForm& form, const std::filesystem::path& path, Examples& examples) {
  const std::vector<std::byte> bytes = read_unpacked(path);
  const std::size_t record_bytes = form.labels() + pixels_each;
  if (bytes.empty() || bytes.size() % record_bytes != 0) {
    throw FileError(
        fmt::format("{}: truncated: {} bytes, which are no whole number of records of {} ({} and 3x32x32 "
                    "pixels)",
                    path.string(), bytes.size(), record_bytes, form.labels() == 1 ? "a label" : "two labels"));
  }
  for (std::size_t i = 0; i < bytes.size() / record_bytes; ++i) {
    const auto record = std::span(bytes).subspan(i * record_bytes, record_bytes);
    for (std::size_t which = 0; which < form.labels(); ++which) {
      const auto label = std::to_integer<std::uint8_t>(record[which]);
      const std::uint8_t classes = form.classes.at(which + 2 - form.labels());
      if (label >= classes) {
        throw FileError(fmt::format("{}: record {} has {}label {}, which is not in 0..{}", path.string(), i,
                                    which + 1 < form.labels() ? "coarse " : "", label, classes - 1));
      }
    }
    examples.append(std::to_integer<std::uint8_t>(record[form.labels() - 1]), record.subspan(form.labels()));
  }
}

void append_pickled(const CifarForm& form, const std::filesystem::path& path, Examples& examples) {
  const std::vector<std::byte> bytes = read_file(path);
  const Pickle pickle(path, bytes);
  const Pickle::Array data = pickle.array("data");
  const std::vector<std::int64_t> labels = pickle.integers(form.pickled_labels);
  if (data.shape.size() != 2 || data.shape[0] == 0 || data.shape[1] != pixels_each) {
    throw FileError(
        fmt::format("{}: data of shape {} instead of Nx{}", path.string(), fmt::join(data.shape, "x"), pixels_each));
  }
  const auto records = static_cast<std::size_t>(data.shape[0]);
  if (labels.size() != records) {
    throw FileError(fmt::format("{}: {} {} for {} images", path.string(), labels.size(), form.pickled_labels, records));
  }
  for (std::size_t i = 0; i < records; ++i) {
    if (labels[i] < 0 || labels[i] >= form.classes[1]) {
      throw FileError(fmt::format("{}: record {} has label {}, which is not in 0..{}", path.string(), i, labels[i],
                                  form.classes[1] - 1));
    }
    examples.append(static_cast<std::uint8_t>(labels[i]), data.values.subspan(i * pixels_each, pixels_each));
  }
}

std::unique_ptr<Dataset> open_cifar(const CifarForm& form, const DataOptions& options, Split split) {
  std::filesystem::path folder = options.data_dir;
  if (path_exists(folder / form.folder)) {
    folder /= form.folder;
  } else if (path_exists(folder / form.pickled_folder)) {
    folder /= form.pickled_folder;
  }
  const std::size_t published = split == Split::train ? 50'000 : 10'000;
  Examples examples;
  examples.pixels.reserve(published * pixels_each);
  examples.labels.reserve(published);
  for (const std::string& name : form.files(split)) {
    const std::filesystem::path pickled = folder / name;
    const std::filesystem::path binary = folder / fmt::format("{}.bin", name);
    if (const std::filesystem::path found = find_packed(binary); !found.empty()) {
      append_binary(form, found, examples);
    } else if (path_exists(pickled)) {
      append_pickled(form, pickled, examples);
    } else {
      throw FileError(
          fmt::format("{}: no such file, and no pickled {}; `sotto data get cifar{}` downloads it, or unpack {} there",
                      binary.string(), name, form.classes[1], form.archive));
    }
  }
  const std::size_t found = examples.labels.size();
  const std::size_t count = chosen_size(options, split, found, folder.string());
  std::string remark;
  if (found != published) {
    remark = fmt::format("{}: {} {} examples, and {} as published has {}", folder.string(), found,
                         split == Split::train ? "training" : "test", form.name, published);
  }
  return std::make_unique<StoredDataset>(cifar_shape, form.classes[1], form.normalisation, count,
                                         std::move(examples.pixels), std::move(examples.labels), std::move(remark));
}

}  // namespace

std::unique_ptr<Dataset> open_cifar10(const DataOptions& options, Split split) {
  return open_cifar(cifar10, options, split);
}

std::unique_ptr<Dataset> open_cifar100(const DataOptions& options, Split split) {
  return open_cifar(cifar100, options, split);
}

}  // namespace sotto
