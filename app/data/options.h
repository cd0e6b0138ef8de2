#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sotto/core/options.h"

namespace sotto {

// Which data set to use, and how much of it. All data sets have the same options.
struct DataOptions {
  static constexpr std::int64_t most_examples = 10'000'000;

  std::string data = "auto";
  std::string data_dir{};
  std::int64_t train_size = 0;  // 0: all
  std::int64_t test_size = 0;
  std::int64_t data_seed = 1;
  std::string augment = "auto";
  std::string tokens = "bytes";
  std::optional<std::int64_t> image_size{};
  bool strict = false;
  std::optional<std::int64_t> data_threads{};
  std::string languages = "de-en";
  std::string test_set = "test";

  void visit(OptionVisitor& v) {
    v.option("data", data, "data set: see `sotto data list`; auto: generated data for the task");
    v.option("data-dir", data_dir,
             "folder of the data set's files; for text or rows it may be the one file, for pictures a pack");
    v.option("train-size", train_size, "use only the first N training examples; 0: all",
             {0, static_cast<double>(most_examples)});
    v.option("test-size", test_size, "use only the first N test examples; 0: all",
             {0, static_cast<double>(most_examples)});
    v.option("data-seed", data_seed, "seed of generated data", Bounds::at_least(0));
    v.option("augment", augment,
             "random changes of training images: crop-flip pads by 4 pixels, crops and mirrors; resized-crop takes a "
             "part of random size, and mirrors; auto: resized-crop for pictures in files, else none",
             {"auto", "none", "crop-flip", "resized-crop"});
    v.option("image-size", image_size,
             "side, in pixels, to which pictures in files are scaled, and of made-images; auto: 224", {8, 4096});
    v.option("strict", strict, "a picture that cannot be decoded is an error; otherwise it is left out");
    v.option("data-threads", data_threads,
             "threads of each rank that read and decode images; auto: a quarter of the cores, shared by the ranks. "
             "Results do not depend on them",
             {1, 256});
    v.option("tokens", tokens, "tokens of a text; for sentencepiece, `sotto data prepare text` makes the model first",
             {"bytes", "sentencepiece"});
    v.option("languages", languages,
             "for parallel text: from which language to which, by the endings of the files' names");
    v.option("test-set", test_set, "for parallel text: how the names of the test files begin");
  }
};

enum class Split : std::uint8_t { train, test };

}  // namespace sotto
