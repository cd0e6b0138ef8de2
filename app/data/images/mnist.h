#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/data/images/pixels.h"

namespace sotto {

// MNIST and the sets with the same format: grey images of 28x28 in four IDX files.
struct MnistForm {
  std::string_view name;
  std::uint8_t classes;  // labels are below it
  Normalisation normalisation;
  std::uint8_t first_label = 0;  // the lowest label that occurs
  std::string_view hint = "";    // how to get the files, for errors

  std::string stem(Split split) const;  // how the names of a split's files begin
};

// EMNIST (Cohen et al., 2017). As in torchvision, images stay as they are stored, with rows and columns exchanged.
// Labels of letters begin at 1, so class 0 never occurs.
inline constexpr Normalisation emnist_normalisation{{0.1751F}, {0.3332F}};

inline constexpr std::array mnist_forms{
    MnistForm{"mnist", 10, mnist_normalisation, 0, "; `sotto data get mnist` downloads it"},
    MnistForm{"fashion-mnist", 10, {{0.2860F}, {0.3530F}}},
    MnistForm{"kmnist", 10, {{0.1918F}, {0.3483F}}},
    MnistForm{"emnist-balanced", 47, emnist_normalisation},
    MnistForm{"emnist-byclass", 62, emnist_normalisation},
    MnistForm{"emnist-bymerge", 47, emnist_normalisation},
    MnistForm{"emnist-digits", 10, emnist_normalisation},
    MnistForm{"emnist-letters", 27, emnist_normalisation, 1},
    MnistForm{"emnist-mnist", 10, emnist_normalisation},
};
const MnistForm& mnist_form(std::string_view name);  // REQUIRES one of these names

// Opens the set that options.data names, from options.data_dir. Its files may be gzipped. Their names are the authors'
// (train-images-idx3-ubyte), or have a dot in place of the last but one dash (train-images.idx3-ubyte). EMNIST's test
// files are called test, not t10k. FileError for a missing or malformed file.
std::unique_ptr<Dataset> open_mnist(const DataOptions& options, Split split);

// An array of bytes in the IDX format: two zero bytes, the element type (8: byte), the number of dimensions, each
// dimension as 32 bits big-endian, then the elements, the last dimension fastest.
struct Idx {
  std::vector<std::uint32_t> shape;
  std::vector<std::uint8_t> values;
};

// Reads a file, unpacking it when it is gzipped. FileError, which names the file and the reason, unless it is exactly
// one complete array of bytes with this number of dimensions.
Idx read_idx(const std::filesystem::path& path, std::size_t dimensions);
// REQUIRES as many values as the shape says.
void write_idx(const std::filesystem::path& path, const Idx& idx);

}  // namespace sotto
