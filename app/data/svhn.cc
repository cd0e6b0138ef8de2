#include "app/data/svhn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "app/data/matlab.h"
#include "app/data/pixels.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {

std::unique_ptr<Dataset> open_svhn(const DataOptions& options, Split split) {
  constexpr std::size_t side = 32, plane = side * side, each = 3 * plane;
  const auto path =
      std::filesystem::path(options.data_dir) / (split == Split::train ? "train_32x32.mat" : "test_32x32.mat");
  if (!path_exists(path)) {
    throw FileError(fmt::format("{}: no such file; `sotto data get svhn` downloads it", path.string()));
  }
  const std::vector<MatlabArray> arrays = read_matlab(path, {"X", "y"});
  const MatlabArray &images = arrays[0], &digits = arrays[1];
  std::vector<std::uint8_t> labels;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const double digit = digits.number(i);
    if (!(digit >= 1 && digit <= 10) || digit != std::floor(digit)) {
      throw FileError(fmt::format("{}: label {} is {}, which is not in 1..10", path.string(), i, digit));
    }
    labels.push_back(static_cast<std::uint8_t>(digit) % 10);
  }
  const std::vector<std::size_t> wanted{side, side, 3, labels.size()};
  if (images.type != MatlabArray::bytes_type || images.shape != wanted) {
    throw FileError(fmt::format("{}: X is an array of {} in place of {} bytes, for as many images as labels",
                                path.string(), fmt::join(images.shape, "x"), fmt::join(wanted, "x")));
  }
  const std::size_t count = chosen_size(options, split, labels.size(), path.string());
  std::vector<std::uint8_t> pixels(count * each);
  for (std::size_t i = 0; i < pixels.size(); ++i) {  // rows vary fastest there, columns here
    const std::size_t row = i / side % side, column = i % side;
    pixels[i] = std::to_integer<std::uint8_t>(images.values[i / plane * plane + column * side + row]);
  }
  labels.resize(count);
  return std::make_unique<StoredDataset>(ImageShape{3, side, side}, 10, svhn_normalisation, count, std::move(pixels),
                                         std::move(labels));
}

}  // namespace sotto
