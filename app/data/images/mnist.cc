#include "app/data/images/mnist.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/data/unpack.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

std::uint32_t big_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | std::to_integer<std::uint32_t>(bytes[static_cast<std::size_t>(i)]);
  return value;
}

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

Idx read_idx(const std::filesystem::path& path, std::size_t dimensions) {
  const auto fail = [&path](const std::string& what) { throw FileError(fmt::format("{}: {}", path.string(), what)); };

  const std::vector<std::byte> bytes = read_unpacked(path);
  const std::size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header) fail(fmt::format("truncated: {} bytes, too short for an IDX header", bytes.size()));
  const std::uint32_t magic = big_endian(bytes);
  const std::uint32_t wanted = 0x0800U | static_cast<std::uint32_t>(dimensions);
  if (magic != wanted) {
    fail(fmt::format("not an IDX file of bytes with {} dimensions: it begins with {:08x} instead of {:08x}", dimensions,
                     magic, wanted));
  }
  Idx idx;
  // Stops as soon as the product exceeds the file, before it can overflow.
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    idx.shape.push_back(big_endian(std::span(bytes).subspan(4 + 4 * i, 4)));
    elements = std::min<std::uint64_t>(elements * idx.shape.back(), std::uint64_t{1} << 31);
  }
  const std::span<const std::byte> body = std::span(bytes).subspan(header);
  if (body.size() != elements) {
    fail(fmt::format("{}: its header announces {} bytes of data, and there are {}",
                     body.size() < elements ? "truncated" : "surplus bytes", fmt::join(idx.shape, "x"), body.size()));
  }
  const auto* first = reinterpret_cast<const std::uint8_t*>(body.data());
  idx.values.assign(first, first + body.size());
  return idx;
}

void write_idx(const std::filesystem::path& path, const Idx& idx) {
  std::vector<std::byte> bytes{std::byte{0}, std::byte{0}, std::byte{8}, static_cast<std::byte>(idx.shape.size())};
  for (const std::uint32_t size : idx.shape) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::byte>(size >> shift));
  }
  const auto values = std::as_bytes(std::span(idx.values));
  bytes.insert(bytes.end(), values.begin(), values.end());
  write_file_atomic(path, bytes);
}

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
