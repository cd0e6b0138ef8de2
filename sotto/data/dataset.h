#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sotto/core/batch.h"
#include "sotto/core/options.h"

namespace sotto {

// Labelled images in memory. Reading is pure and may be done from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;
  virtual ImageShape shape() const = 0;
  virtual std::int64_t classes() const = 0;
  // Writes shape().size() normalised floats and the label of one example.
  virtual void read(std::size_t index, std::span<float> image, std::int64_t& label) const = 0;
};

struct DataOptions {
  static constexpr std::int64_t most_examples = 10'000'000;

  std::string data = "digits";
  std::string data_dir{};
  std::int64_t train_size = 0;  // 0: all that there is
  std::int64_t test_size = 0;
  std::int64_t data_seed = 1;

  void visit(OptionVisitor& v) {
    v.option("data", data, "data set: see `sotto data list`");
    v.option("data-dir", data_dir, "folder of the data set's files");
    v.option("train-size", train_size, "use only the first N training examples; 0: all",
             {0, static_cast<double>(most_examples)});
    v.option("test-size", test_size, "use only the first N test examples; 0: all",
             {0, static_cast<double>(most_examples)});
    v.option("data-seed", data_seed, "seed of generated data", Bounds::at_least(0));
  }
};

enum class Split : std::uint8_t { train, test };

// A line of the table of data sets.
struct DatasetEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view files;  // what data_dir must hold; empty when it needs none
  std::unique_ptr<Dataset> (*open)(const DataOptions& options, Split split);
};
std::span<const DatasetEntry> dataset_table();

// ConfigError for an unknown name or a missing --data-dir; FileError, which names the file, for what is in it.
std::unique_ptr<Dataset> open_dataset(const DataOptions& options, Split split);

}  // namespace sotto
