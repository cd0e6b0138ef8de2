#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/data/source.h"
#include "sotto/core/examples.h"
#include "sotto/core/random.h"

namespace sotto {

// Labelled images. Several threads may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;
  virtual ImageShape shape() const = 0;
  virtual std::int64_t classes() const = 0;
  virtual std::string class_name(std::int64_t label) const;  // its number in sets without names
  // Writes the shape().size() normalised floats of example `index` to `image`, and its label to `label`.
  virtual void read(std::size_t index, std::span<float> image, std::int64_t& label) const = 0;
  virtual std::int64_t label(std::size_t index) const = 0;  // the label that read() gives, with less work
  virtual std::vector<float> black() const = 0;             // the normalised value of a black pixel, for each channel

  // Whether examples are pictures of any size, which are decoded when they are read: only in sets of files.
  virtual bool decodes() const { return false; }
  // Like read(), but gives a random part of the picture, perhaps mirrored, for training: a pure function of the drawn
  // numbers. REQUIRES decodes().
  virtual void read_crop(std::size_t index, Philox& random, std::span<float> image, std::int64_t& label) const;
  virtual std::string meaning() const { return ""; }  // as Task::meaning(); empty for classes without names
  // Lines about what the user ought to know, such as examples that are left out.
  virtual std::vector<std::string> remarks() const { return {}; }
};

using DatasetEntry = SourceEntry<Dataset>;
const Table<DatasetEntry>& dataset_table();

// See open_source().
std::unique_ptr<Dataset> open_dataset(const DataOptions& options, Split split);

// CIFAR-10 (Krizhevsky, 2009) from options.data_dir. The binary version, there or in the folder cifar-10-batches-bin,
// has files of 10,000 records, each a label byte and 3x32x32 pixels. The Python version, there or in the folder
// cifar-10-batches-py, has pickled dictionaries with `data` and `labels`. FileError for a missing or malformed file.
std::unique_ptr<Dataset> open_cifar10(const DataOptions& options, Split split);

// CIFAR-100 in the same way, from train.bin and test.bin or from train and test, there or in the folders
// cifar-100-binary and cifar-100-python. A binary record begins with the coarse label (20 groups); then comes the fine
// one, which is used.
std::unique_ptr<Dataset> open_cifar100(const DataOptions& options, Split split);

// The cropped digits of Street View House Numbers (Netzer et al., 2011) from train_32x32.mat and test_32x32.mat in
// options.data_dir. The label of a digit is the digit: the files have 10 for 0. FileError for a missing or malformed
// file.
std::unique_ptr<Dataset> open_svhn(const DataOptions& options, Split split);

// Generated digits in MNIST's form (28x28, the digit in about the middle 20x20, white on black), so that a first run
// needs no files. Each example is a way of writing (digit_strokes.h) with random changes of knots, proportions, slant,
// size, place, pen and ink (digits.cc says how hard they are). Example i is a pure function of (data_seed, split, i),
// the same bytes on every machine.
std::unique_ptr<Dataset> open_digits(const DataOptions& options, Split split);

// Generated images in CIFAR's form (3x32x32, 10 classes). Class 2s + g shows shape s (disc, square, triangle, ring,
// cross), filled with a fine (g = 0) or coarse (g = 1) grating, on a background of other colours. Place, size, angle,
// colours and noise are random, so neither colour nor place tells the class. Example i is a pure function of
// (data_seed, split, i), the same bytes on every machine.
std::unique_ptr<Dataset> open_made_cifar(const DataOptions& options, Split split);

// The same images with ImageNet's normalisation and size, or with sides of options.image_size pixels.
std::unique_ptr<Dataset> open_made_images(const DataOptions& options, Split split);

// The pictures in options.data_dir: a folder (picture_set.h), or a pack (picture_pack.h). FileError, which names the
// file, for a pack that is truncated, damaged or of another format. Damage of a single picture is found when that
// picture is read.
std::unique_ptr<Dataset> open_pictures(const DataOptions& options, Split split);

}  // namespace sotto
