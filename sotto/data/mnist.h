#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "sotto/data/dataset.h"
#include "sotto/data/pixels.h"

namespace sotto {

// MNIST and the sets with the same format: grey images of 28x28 in four IDX files.
struct MnistForm {
  std::string_view prefix;   // of the files' names
  std::uint8_t first_label;  // the lowest that occurs
  std::uint8_t classes;      // labels are below it
  Normalisation normalisation;
  std::string_view hint = "";  // how to get the files, for errors
};

inline constexpr MnistForm mnist_form{"", 0, 10, mnist_normalisation, "; `sotto data get mnist` downloads it"};
inline constexpr MnistForm fashion_mnist_form{"", 0, 10, {{0.2860F}, {0.3530F}}};
inline constexpr MnistForm kmnist_form{"", 0, 10, {{0.1918F}, {0.3483F}}};
// Cohen et al., 2017. As torchvision does, we keep each image as it is stored, rows and columns exchanged, and the
// labels of letters, which begin at 1: class 0 never occurs.
inline constexpr Normalisation emnist_normalisation{{0.1751F}, {0.3332F}};
inline constexpr MnistForm emnist_balanced_form{"emnist-balanced-", 0, 47, emnist_normalisation};
inline constexpr MnistForm emnist_byclass_form{"emnist-byclass-", 0, 62, emnist_normalisation};
inline constexpr MnistForm emnist_bymerge_form{"emnist-bymerge-", 0, 47, emnist_normalisation};
inline constexpr MnistForm emnist_digits_form{"emnist-digits-", 0, 10, emnist_normalisation};
inline constexpr MnistForm emnist_mnist_form{"emnist-mnist-", 0, 10, emnist_normalisation};
inline constexpr MnistForm emnist_letters_form{"emnist-letters-", 1, 27, emnist_normalisation};

// Opens such a set from options.data_dir. Its files are gzipped or not, named as their authors do
// (train-images-idx3-ubyte) or with a dot (train-images.idx3-ubyte); those of EMNIST's test split say test, not t10k.
// FileError for a missing or malformed file.
std::unique_ptr<Dataset> open_mnist_form(const MnistForm& form, const DataOptions& options, Split split);

}  // namespace sotto
