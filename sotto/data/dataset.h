#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/batch.h"
#include "sotto/core/table.h"
#include "sotto/data/options.h"

namespace sotto {

// Labelled images in memory. Several threads may read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;
  virtual ImageShape shape() const = 0;
  virtual std::int64_t classes() const = 0;
  // Writes the shape().size() normalised floats of example `index` to `image`, and its label to `label`.
  virtual void read(std::size_t index, std::span<float> image, std::int64_t& label) const = 0;
  virtual std::vector<float> black() const = 0;  // the normalised value of a black pixel, for each channel
};

// A line of the table of data sets.
struct DatasetEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view files;  // what data_dir must hold; empty when it needs none
  std::unique_ptr<Dataset> (*open)(const DataOptions& options, Split split);
};
const Table<DatasetEntry>& dataset_table();

// ConfigError for an unknown name or when data_dir is not given; FileError, which names the file, for a bad file.
std::unique_ptr<Dataset> open_dataset(const DataOptions& options, Split split);

}  // namespace sotto
