#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/data/source.h"
#include "sotto/core/batch.h"
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

}  // namespace sotto
