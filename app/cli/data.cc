#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/data/download.h"
#include "app/data/images/dataset.h"
#include "app/data/made/stand_in.h"
#include "app/data/pictures/picture_pack.h"
#include "app/data/rows/rows.h"
#include "app/data/text/pairs.h"
#include "app/data/text/text.h"
#include "app/launch/console.h"
#include "app/report/text_table.h"
#include "app/train/stop_signal.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/table.h"
#include "sotto/core/text.h"
#include "sotto/core/thread_pool.h"

namespace sotto {
namespace {

constexpr std::string_view help = R"text(Lists, describes, downloads, makes, prepares and shows data sets.

Usage: sotto data list
       sotto data info NAME [--data-dir DIR]
       sotto data get NAME --data-dir DIR [--url BASE]
       sotto data make NAME --data-dir DIR [--train-size N] [--test-size N]
       sotto data prepare text|parallel --data-dir DIR [--languages de-en] [--vocabulary N]
       sotto data prepare folder --data-dir DIR --out FILE [--strict]
       sotto data show NAME --out FILE.pgm [--count N] [--data-dir DIR] [--image-size N]

Examples:
  sotto data get mnist --data-dir data/mnist
  sotto data make libsvm --data-dir data/rows --train-size 5000 --test-size 1000
  sotto data info libsvm --data-dir data/rows
  sotto data show digits --count 100 --out digits.pgm
)text";

int list(std::span<const std::string> arguments) {
  Flags flags("data list", "Lists the data sets.", "");
  if (!flags.parse(arguments)) return 0;
  TextTable table({"name", "kind", "what", "files in --data-dir"});
  for (std::size_t column = 1; column < 4; ++column) table.left(column);
  const auto add = [&](const auto& sets, std::string_view kind) {
    for (const auto& set : sets) {
      const std::string_view files = set.files.empty() ? "-" : set.files;
      table.add({std::string(set.name), std::string(kind), std::string(set.summary), std::string(files)});
    }
  };
  add(dataset_table(), "images");
  add(text_table(), "text");
  add(pair_table(), "pairs");
  add(row_table(), "rows");
  fmt::print("{}", table.plain());
  return 0;
}

// ConfigError for a set that this action does not support. The error names the supported sets, or says that there is no
// such set.
void require_set(std::string_view action, std::string_view name, std::span<const std::string_view> can) {
  if (std::ranges::count(can, name) > 0) return;
  const std::vector<std::string_view> known = set_names();
  if (std::ranges::count(known, name) == 0) throw ConfigError(unknown_name("data set", name, known));
  throw ConfigError(
      fmt::format("sotto data {}: cannot do it for `{}`, only for {}", action, name, fmt::join(can, ", ")));
}

int get(std::span<const std::string> arguments) {
  std::string name, data_dir, url;
  Flags flags("data get",
              "Downloads the files of a data set and checks them. After an interruption, the same command continues.",
              "");
  flags.add_positional("name", name, "data set, see `sotto data list`", true);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("data-dir", data_dir, "folder for the files; created if missing");
    v.option("url", url, "address of a folder to download from, instead of the usual mirror");
  };
  if (!flags.read(arguments, visit)) return 0;
  std::vector<std::string_view> can = set_names();
  std::erase_if(can, [](std::string_view set) { return find_download(set) == nullptr; });
  require_set("get", name, can);
  refuse(data_dir.empty(), "sotto data get: say where to with --data-dir");

  const StopSignal signals;
  Console console;
  const auto progress = [&](const std::filesystem::path& file, std::uint64_t done, std::uint64_t total) {
    console.progress(fmt::format("{}  {} of {}", file.filename().string(), bytes_text(static_cast<double>(done)),
                                 bytes_text(static_cast<double>(total))));
    return StopSignal::caught() == 0;
  };
  const Fetched fetched = get_dataset(name, data_dir, url, progress);
  console.clear();
  switch (fetched) {
    case Fetched::already_there: fmt::print("{} is in {} already, complete\n", name, data_dir); return 0;
    case Fetched::done: fmt::print("{} is in {}\n", name, data_dir); return 0;
    case Fetched::cancelled: break;
  }
  print_error(fmt::format("sotto: stopped; the same command continues from here\n"));
  return 128 + StopSignal::caught();
}

// A flag that only some data sets use.
struct OwnFlag {
  std::string_view name;
  std::vector<std::string_view> sets;
};
void refuse_unused(const Flags& flags, std::string_view set, std::initializer_list<OwnFlag> own) {
  for (const OwnFlag& flag : own) {
    if (!flags.given(flag.name) || std::ranges::count(flag.sets, set) > 0) continue;
    throw ConfigError(
        fmt::format("--{}: is for {} alone, and not for {}", flag.name, fmt::join(flag.sets, " and "), set));
  }
}

int make(std::span<const std::string> arguments) {
  DataOptions options;
  Flags flags(
      "data make",
      "Writes files in the format of a data set, with generated examples, to try its reader without a download.", "");
  flags.add_positional("name", options.data, "data set, see `sotto data list`", true);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    const Bounds sizes{0, static_cast<double>(DataOptions::most_examples)};
    v.option("data-dir", options.data_dir, "folder for the files; created if missing");
    v.option("train-size", options.train_size,
             "number of training examples (bytes, for a text); 0: as many as the generated sets have", sizes);
    v.option("test-size", options.test_size, "the same for tests", sizes);
    v.option("data-seed", options.data_seed, "seed of the generated examples", Bounds::at_least(0));
    v.option("languages", options.languages, "for parallel text: the endings of the files' names");
    v.option("test-set", options.test_set, "for parallel text: how the names of the test files begin");
  };
  if (!flags.read(arguments, visit)) return 0;
  require_set("make", options.data, stand_in_names());
  refuse(options.data_dir.empty(), "sotto data make: say where to with --data-dir");
  refuse_unused(flags, options.data, {{"languages", {"parallel"}}, {"test-set", {"parallel"}}});
  for (const std::filesystem::path& file : make_stand_in(options)) {
    fmt::print("{}  {}\n", file.string(), bytes_text(static_cast<double>(std::filesystem::file_size(file))));
  }
  return 0;
}

struct PrepareOptions {
  DataOptions data;
  std::int64_t vocabulary = 8000;
  std::string out;
  void visit(OptionVisitor& v) {
    v.option("data-dir", data.data_dir, "folder of the data set's files");
    v.option("languages", data.languages,
             "for parallel text: from which language to which, by the endings of the files' names");
    v.option("vocabulary", vocabulary, "number of tokens", {16, 65536});
    v.option("out", out, "for pictures: the file to pack them into");
    v.option("strict", data.strict, "for pictures: one that cannot be decoded is an error; otherwise it is left out");
    v.option("data-threads", data.data_threads, "for pictures: threads that check them; auto: as many as cores",
             {1, 256});
  }
};

int prepare_pictures(const PrepareOptions& options) {
  refuse(options.out.empty(), "sotto data prepare: say where to with --out FILE");
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  ThreadPool pool(static_cast<int>(options.data.data_threads.value_or(std::max<std::int64_t>(1, cores))));
  const StopSignal signals;
  Console console;
  const auto report = write_picture_pack(options.data.data_dir, options.out, options.data.strict, pool,
                                         [&](std::size_t done, std::size_t all) {
                                           console.progress(fmt::format("{} of {} pictures", done, all));
                                           return StopSignal::caught() == 0;
                                         });
  console.clear();
  if (!report) {
    print_error(fmt::format("sotto: stopped; nothing was written\n"));
    return 128 + StopSignal::caught();
  }
  for (const std::string& broken : report->broken) print_error(fmt::format("warning: {}\n", broken));
  if (!report->broken.empty()) {
    print_error(fmt::format("warning: these {} pictures cannot be decoded and are left out\n", report->broken.size()));
  }
  fmt::print("{} pictures to train with and {} for tests, {}, in {}\n", report->pictures[0], report->pictures[1],
             bytes_text(static_cast<double>(report->bytes)), options.out);
  return 0;
}

int prepare(std::span<const std::string> arguments) {
  PrepareOptions options;
  Flags flags("data prepare",
              "Makes what a data set needs in addition to its files: for `text` and `parallel` a vocabulary, for "
              "pictures one file that holds them all and opens at once.",
              "");
  flags.add_positional("name", options.data.data, "data set, see `sotto data list`", true);
  if (!flags.read(arguments, options)) return 0;
  const std::string& name = options.data.data;
  require_set("prepare", name, std::array<std::string_view, 3>{"text", "parallel", "folder"});
  refuse_unused(flags, name,
                {{"languages", {"parallel"}},
                 {"vocabulary", {"text", "parallel"}},
                 {"out", {"folder"}},
                 {"strict", {"folder"}},
                 {"data-threads", {"folder"}}});
  refuse(options.data.data_dir.empty(), "sotto data prepare: say where the files are with --data-dir");
  if (name == "folder") return prepare_pictures(options);
  const bool text = name == "text";
  (text ? make_text_vocabulary : make_pair_vocabulary)(options.data, options.vocabulary);
  const auto file = (text ? text_vocabulary_file : pair_vocabulary_file)(options.data.data_dir);
  fmt::print("{} tokens in {}\n", options.vocabulary, file.string());
  return 0;
}

// The first examples as grey squares: colours are averaged, and each image is stretched from its darkest to its
// brightest pixel.
std::string sheet(const Dataset& data, std::size_t count) {
  const ImageShape shape = data.shape();
  const auto height = static_cast<std::size_t>(shape.height), width = static_cast<std::size_t>(shape.width);
  const auto columns = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const std::size_t rows = (count + columns - 1) / columns;
  std::string pixels(rows * height * columns * width, '\0');
  std::vector<float> image(shape.size()), grey(height * width);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t label = 0;
    data.read(i, image, label);
    std::ranges::fill(grey, 0.0F);
    for (std::size_t p = 0; p < image.size(); ++p) grey[p % grey.size()] += image[p];
    const auto [low, high] = std::ranges::minmax(grey);
    const float scale = high > low ? 255.0F / (high - low) : 0.0F;
    const std::size_t corner = (i / columns * height) * columns * width + i % columns * width;
    for (std::size_t p = 0; p < grey.size(); ++p) {
      pixels[corner + p / width * columns * width + p % width] =
          static_cast<char>(std::lround((grey[p] - low) * scale));
    }
  }
  return fmt::format("P5\n{} {}\n255\n", columns * width, rows * height) + pixels;
}

int show(std::span<const std::string> arguments) {
  DataOptions options;
  std::int64_t count = 100;
  std::string out, split = "train";
  Flags flags("data show", "Writes the first examples of a data set as one image.", "");
  flags.add_positional("name", options.data, "data set, see `sotto data list`", true);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("out", out, "image file to write, in the PGM format");
    v.option("count", count, "number of examples", {1, 10000});
    v.option("split", split, "which half of the data", {"train", "test"});
    v.option("data-dir", options.data_dir, "folder of the data set's files");
    v.option("data-seed", options.data_seed, "seed of generated data", Bounds::at_least(0));
    v.option("image-size", options.image_size, "side, in pixels, to which pictures in files are scaled; auto: 224",
             {8, 4096});
  };
  if (!flags.read(arguments, visit)) return 0;
  require_set("show", options.data, dataset_table().names());
  refuse(out.empty(), "sotto data show: say where to with --out FILE.pgm");
  require_ending("out", out, ".pgm");
  const auto data = open_dataset(options, split == "train" ? Split::train : Split::test);
  const std::size_t shown = std::min(static_cast<std::size_t>(count), data->size());
  write_file_atomic(out, sheet(*data, shown));
  fmt::print("{} examples of {} in {}\n", shown, options.data, out);
  return 0;
}

constexpr std::array<Command, 6> actions{{{"list", "", list},
                                          {"info", "", run_data_info},
                                          {"get", "", get},
                                          {"make", "", make},
                                          {"prepare", "", prepare},
                                          {"show", "", show}}};

}  // namespace

int run_data(std::span<const std::string> arguments) { return run_action("data", actions, help, arguments); }

}  // namespace sotto
