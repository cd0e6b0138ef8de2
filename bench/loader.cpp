// How many images a second `sotto train` loads from a folder of pictures, on one core: bench_loader DIR [SECONDS
// [SIDE]]. Prints a number for training, with random parts, and one for evaluation, over all pictures of DIR/train.
// Seconds are processor time, so that other programs matter less. bench/loader.py compares the numbers with Pillow's.
#include <fmt/core.h>

#include <cstdio>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "app/data/images/loader.h"
#include "sotto/core/error.h"

namespace {

using namespace sotto;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Calls load(), which loads some images and returns how many, until `seconds` are over.
template <class Load>
double images_a_second(double seconds, Load&& load) {
  const double begin = processor_seconds();
  std::size_t images = 0;
  double taken = 0;
  while ((taken = processor_seconds() - begin) < seconds) images += load();
  return static_cast<double>(images) / taken;
}

void run(const std::string& folder, double seconds, std::int64_t side) {
  const auto data = open_dataset({.data = "folder", .data_dir = folder, .image_size = side}, Split::train);
  Loader loader(*data,
                {.order = {.batch = std::min<std::size_t>(32, data->size())}, .augment = read_augment("auto", *data)});
  std::uint64_t position = 0;
  loader.at(position++);
  const double training = images_a_second(seconds, [&] { return loader.at(position++).count(); });
  std::vector<float> image(data->shape().size());
  std::size_t example = 0;
  const double evaluation = images_a_second(seconds, [&] {
    std::int64_t label = 0;
    data->read(example++ % data->size(), image, label);
    return 1;
  });
  fmt::print("{:.1f} {:.1f}\n", training, evaluation);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    fmt::print("bench_loader DIR [SECONDS [SIDE]]: without a folder of pictures there is nothing to load\n");
    return 0;
  }
  try {
    run(arguments[0], arguments.size() > 1 ? std::stod(arguments[1]) : 5,
        arguments.size() > 2 ? std::stoll(arguments[2]) : 224);
  } catch (const Error& error) {
    fmt::print(stderr, "bench_loader: {}\n", error.what());
    return 1;
  }
}
