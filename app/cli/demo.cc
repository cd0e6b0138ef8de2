#include <fmt/format.h>

#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/compare.h"
#include "app/cli/train_flags.h"
#include "app/launch/signals.h"
#include "app/train/folder/run_folder.h"
#include "sotto/core/error.h"
#include "sotto/core/output.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
Takes every flag of `sotto train` and of `sotto compare`, to change any part of it.

Examples:
  sotto demo --link 10mbit --max-steps 60
  sotto demo --codecs none "ef | topk(0.001)" --ranks 2)text";

constexpr std::string_view explanation = R"text(
Ratio: bytes of a dense all-reduce, divided by the bytes sent. Times are means of rank 0 in ms; compute overlaps with
the exchange, so the parts of a step may add up to more than the step. Over a slow link, the messages determine how long
a step takes. qsgd(4) rounds values to 4 bits, at random, so that the mean is right; rans packs these by an entropy
code. power(4) (PowerSGD) sends two narrow factors of each matrix. topk(0.2) sends the largest fifth of the values; error
feedback (ef) keeps the others, and sends them later. A longer training: sotto demo --train-size 0 --epochs 3 --max-steps auto
)text";

TrainOptions demo_options() {
  TrainOptions options;
  options.model = "lenet";
  options.data.data = "digits";
  options.data.train_size = 12800;
  options.data.test_size = 2000;
  options.ranks = 4;
  options.batch_size = 64;
  options.epochs = 2;
  options.max_steps = 100;
  options.link = "100mbit";
  return options;
}

}  // namespace

int run_demo(std::span<const std::string> arguments) {
  TrainOptions options = demo_options();
  std::vector<std::string> codecs{"none", "qsgd(4) | rans", "power(4)", "ef | topk(0.2) | qsgd(4)"};
  Flags flags("demo", "Trains LeNet on four ranks over an emulated 100 Mbit/s link, dense and with three codecs.",
              examples);
  flags.alias("codecs", "codec");
  flags.add_list("codecs", codecs, "what to compare, each codec in quotes");
  add_train_flags(flags, options);
  if (!flags.parse(arguments)) return 0;
  const Signals signals;  // Ctrl-C ends it with the table of what there is
  const std::int64_t ranks = options.ranks;
  assign_train_flags(flags, options);
  if (options.ranks == 0) options.ranks = ranks;
  if (options.resume) throw ConfigError("--resume: a demo always starts from the beginning");
  TrainOptions checked = options;        // each job fills in the options that depend on its codec
  checked.codec = TrainOptions{}.codec;  // a bad codec is reported in its row
  checked = read_choices(checked).options;
  if (options.train_dir.empty()) options.train_dir = new_run_folder("demo");

  const std::string length =
      options.max_steps ? fmt::format("{} steps", *options.max_steps) : fmt::format("{} epochs", options.epochs);
  fmt::print("{} on `{}`, {}, {} processes that meet over TCP{}, {} images a rank and step.\n", checked.model,
             checked.data.data, length, options.ranks,
             options.link ? fmt::format(", each with a link of {}", *options.link) : "", options.batch_size);
  fmt::print("The same training with each of these, and the same seed: {}.\n", fmt::join(codecs, ";  "));
  fmt::print("`none` sends whole gradients, any other codec a compressed form of them. Run folders: {}\n\n",
             options.train_dir);
  flush_output();
  const int status = compare_runs(options, {&options.algorithm, 1}, codecs, TableStyle::plain);
  if (status != 0) return status;
  fmt::print("{}", explanation);
  return 0;
}

}  // namespace sotto
