#include "app/data/made/stand_in.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "app/data/images/dataset.h"
#include "app/data/images/mnist.h"
#include "app/data/images/pixels.h"
#include "app/data/made/generated.h"
#include "app/data/rows/rows.h"
#include "app/data/text/pairs.h"
#include "app/data/text/text.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

using Paths = std::vector<std::filesystem::path>;

// Collects the files of a data set.
class Folder {
 public:
  explicit Folder(const DataOptions& options) : path_(options.data_dir) {}

  // The path of a file that is to be written.
  const std::filesystem::path& add(const std::string& name) {
    make_folder(path_);
    const std::filesystem::path file = path_ / name;
    if (path_exists(file)) {
      throw FileError(file.string() + ": is there already, and is not overwritten; choose another folder");
    }
    return written_.emplace_back(file);
  }
  const Paths& written() const { return written_; }

 private:
  std::filesystem::path path_;
  Paths written_;
};

constexpr std::array splits{Split::train, Split::test};

// --- images ---

// Draws example `index` of `classes` classes. If there are more than ten classes, the place of a bright mark at the
// upper edge tells the tens of a class.
std::uint32_t draw_of(const GeneratedForm& form, std::uint32_t classes, std::uint64_t seed, Split split,
                      std::uint64_t index, std::span<std::uint8_t> pixels) {
  Philox random = example_random(seed, split, index);
  const std::uint32_t drawn = form.render(random, pixels);
  const std::uint32_t tens = random.below((classes - drawn + drawn_classes - 1) / drawn_classes);
  if (classes > drawn_classes) {
    constexpr std::size_t rows = 2, columns = 2, places = 10;
    const auto side = static_cast<std::size_t>(form.shape.width), channels = pixels.size() / side / side;
    const std::size_t left = tens * side / places;
    for (std::size_t channel = 0; channel < channels; ++channel) {
      for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t begin = (channel * side + row) * side;
        std::ranges::fill(pixels.subspan(begin, side), std::uint8_t{0});
        std::ranges::fill(pixels.subspan(begin + left, columns), std::uint8_t{255});
      }
    }
  }
  return drawn + drawn_classes * tens;
}

void make_idx(const DataOptions& options, Folder& folder) {
  const MnistForm& form = mnist_form(options.data);
  const std::size_t pixels = digit_form.shape.size();
  for (const Split split : splits) {
    const std::size_t count = generated_size(options, split, digit_form.usual_train, digit_form.usual_test);
    Idx images{{static_cast<std::uint32_t>(count), 28, 28}, std::vector<std::uint8_t>(count * pixels)};
    Idx labels{{static_cast<std::uint32_t>(count)}, std::vector<std::uint8_t>(count)};
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t label = draw_of(digit_form, std::uint32_t{form.classes} - form.first_label,
                                          static_cast<std::uint64_t>(options.data_seed), split, i,
                                          std::span(images.values).subspan(i * pixels, pixels));
      labels.values[i] = static_cast<std::uint8_t>(form.first_label + label);
    }
    write_idx(folder.add(form.stem(split) + "-images-idx3-ubyte"), images);
    write_idx(folder.add(form.stem(split) + "-labels-idx1-ubyte"), labels);
  }
}

void make_cifar(const DataOptions& options, Folder& folder) {
  constexpr std::size_t pixels = 3 * 32 * 32, coarse_classes = 20;
  const bool fine = options.data == "cifar100";
  const std::uint32_t classes = fine ? 100 : 10;
  const auto write = [&](const std::string& name, Split split, std::size_t begin, std::size_t count) {
    const std::size_t labels = fine ? 2 : 1, record = labels + pixels;
    std::vector<std::uint8_t> bytes(count * record);
    for (std::size_t i = 0; i < count; ++i) {
      const auto image = std::span(bytes).subspan(i * record, record);
      const std::uint32_t label = draw_of(made_cifar_form, classes, static_cast<std::uint64_t>(options.data_seed),
                                          split, begin + i, image.subspan(labels));
      image[labels - 1] = static_cast<std::uint8_t>(label);
      if (fine) image[0] = static_cast<std::uint8_t>(label / (classes / coarse_classes));
    }
    write_file_atomic(folder.add(name), std::as_bytes(std::span(bytes)));
  };
  const std::size_t train = generated_size(options, Split::train, 50'000, 10'000), files = fine ? 1 : 5;
  if (train < files) {
    throw ConfigError(fmt::format("{}: there are {} files, and each has an image",
                                  size_option(Split::train, options.train_size), files));
  }
  write(fine ? "test.bin" : "test_batch.bin", Split::test, 0, generated_size(options, Split::test, 50'000, 10'000));
  if (fine) return write("train.bin", Split::train, 0, train);
  for (std::size_t i = 0; i < files; ++i) {
    const std::size_t begin = train * i / files, end = train * (i + 1) / files;
    write(fmt::format("data_batch_{}.bin", i + 1), Split::train, begin, end - begin);
  }
}

// --- text and rows ---

void make_bytes(const DataOptions& options, Folder& folder) {
  for (const Split split : splits) {
    const std::unique_ptr<Text> made = open_made_text(options, split);
    const std::size_t size = chosen_size(options, split, made->tokens.size(), "the made text, in bytes,");
    std::string text;
    for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(made->tokens[i]);
    write_file_atomic(folder.add(split == Split::train ? "train.txt" : "test.txt"), text);
  }
}

void make_rows(const DataOptions& options, Folder& folder) {
  constexpr std::uint32_t csv_columns = 32;  // the first, which occur most often
  const bool csv = options.data == "csv";
  for (const Split split : splits) {
    const std::unique_ptr<Rows> rows = open_made_rows(options, split);
    std::string text;
    const auto to = std::back_inserter(text);
    if (csv) {
      text += "label";
      for (std::uint32_t i = 0; i < csv_columns; ++i) fmt::format_to(to, ",x{}", i);
      text += '\n';
    }
    for (std::size_t i = 0; i < rows->size(); ++i) {
      const Row row = rows->at(i);
      text += row.label > 0 ? "1" : "-1";
      std::size_t next = 0;
      for (std::uint32_t column = 0; csv && column < csv_columns; ++column) {
        const bool here = next < row.columns.size() && row.columns[next] == column;
        fmt::format_to(to, ",{}", here ? row.values[next++] : 0.0F);
      }
      for (; !csv && next < row.columns.size(); ++next) {
        fmt::format_to(to, " {}:{}", row.columns[next] + 1, row.values[next]);
      }
      text += '\n';
    }
    write_file_atomic(folder.add(fmt::format("{}.{}", split == Split::train ? "train" : "test", options.data)), text);
  }
}

void make_parallel(const DataOptions& options, Folder& folder) {
  constexpr std::int64_t vocabulary = 64;  // so few that short texts have them
  const auto [source, target] = pair_languages(options);
  for (const Split split : splits) {
    const std::unique_ptr<Pairs> pairs = open_made_pairs(options, split);
    std::string sources, targets;
    for (std::size_t i = 0; i < pairs->size(); ++i) {
      const std::vector<std::int64_t> tokens(pairs->sources[i].begin(), pairs->sources[i].end());
      sources += pairs->vocabulary->decode(tokens) + "\n";
      targets += pairs->references[i] + "\n";
    }
    const std::string_view stem = split == Split::train ? "train" : std::string_view(options.test_set);
    write_file_atomic(folder.add(fmt::format("{}.{}", stem, source)), sources);
    write_file_atomic(folder.add(fmt::format("{}.{}", stem, target)), targets);
  }
  folder.add(pair_vocabulary_file("").string());
  make_pair_vocabulary(options, vocabulary);
}

struct StandIn {
  std::string_view name;
  void (*make)(const DataOptions& options, Folder& folder);
};

std::vector<StandIn> stand_ins() {
  std::vector<StandIn> all;
  all.reserve(mnist_forms.size() + 5);
  for (const MnistForm& form : mnist_forms) all.push_back({form.name, make_idx});
  for (const std::string_view name : {"cifar10", "cifar100"}) all.push_back({name, make_cifar});
  all.push_back({"text", make_bytes});
  for (const std::string_view name : {"libsvm", "csv"}) all.push_back({name, make_rows});
  all.push_back({"parallel", make_parallel});
  return all;
}

}  // namespace

std::vector<std::string_view> stand_in_names() {
  std::vector<std::string_view> names;
  for (const StandIn& one : stand_ins()) names.push_back(one.name);
  return names;
}

std::vector<std::filesystem::path> make_stand_in(const DataOptions& options) {
  const std::vector<StandIn> all = stand_ins();
  const auto found = std::ranges::find(all, options.data, &StandIn::name);
  if (found == all.end()) {
    throw ConfigError("no files are made: " + unknown_name("data set", options.data, stand_in_names()));
  }
  Folder folder(options);
  found->make(options, folder);
  return folder.written();
}

}  // namespace sotto
