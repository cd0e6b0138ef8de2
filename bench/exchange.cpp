// Steps of an algorithm without training a network: gradients are synthetic, and sleeping stands for computing, so that
// ranks may outnumber cores. It is started like `sotto train`, once per rank, over Gloo. Each rank prints one line of
// JSON: medians per step of its seconds (from the end of one step to the end of the next), its phases, and the exchange
// time that computing did not hide; means of the seconds, with and without waiting for the last messages, and of bytes.
// bench/exchange.py joins the ranks by links and prints tables.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "adapters/c10d/transports.h"
#include "app/model/image_model.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/codec/measure.h"
#include "sotto/comm/emulated/shaped.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/timer.h"
#include "sotto/optim/optimiser.h"

namespace {

using namespace sotto;

struct Arguments {
  std::string model = "lenet", link;
  std::string codec = "none", aggregator = "auto";
  AlgorithmOptions options;
  std::string algorithm = "sync";
  std::int64_t steps = 20, warm = 3, bucket_kib = 1024, deadline = 120;
  double compute = 0;  // seconds per step
  int slow_rank = -1;  // this rank computes `slow` times as long
  double slow = 1;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) throw ConfigError(std::string(name) + " wants a value");
    const std::string value = argv[++i];
    const auto whole = [&](double least) { return parse_int(name, value, Bounds{least, 1e9}); };
    const auto number = [&] { return parse_double(name, value, Bounds{0, 1e6}); };
    if (name == "--model")
      arguments.model = value;
    else if (name == "--algorithm")
      arguments.algorithm = value;
    else if (name == "--codec")
      arguments.codec = value;
    else if (name == "--aggregator")
      arguments.aggregator = value;
    else if (name == "--topology")
      arguments.options.topology = read_topology(value);
    else if (name == "--link")
      arguments.link = value;
    else if (name == "--overlap")
      arguments.options.overlap = whole(0) != 0;
    else if (name == "--steps")
      arguments.steps = whole(1);
    else if (name == "--warm")
      arguments.warm = whole(0);
    else if (name == "--bucket-kib")
      arguments.bucket_kib = whole(1);
    else if (name == "--deadline")
      arguments.deadline = whole(1);
    else if (name == "--compute-ms")
      arguments.compute = number() / 1e3;
    else if (name == "--slow-rank")
      arguments.slow_rank = static_cast<int>(whole(0));
    else if (name == "--slow")
      arguments.slow = number();
    else
      throw ConfigError("there is no flag " + std::string(name));
  }
  return arguments;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// The share of backward that each bucket takes, measured with torch on a batch of noise. Rank 0 measures for all ranks,
// so that all sleep alike.
std::vector<double> shares(ImageModel& model, const ImageShape& shape, std::span<const BucketPlan> buckets,
                           Communicator& communicator) {
  constexpr std::size_t examples = 16, times = 5;  // small models run more than 5 times: for half a second
  std::vector<double> all(buckets.size());
  if (communicator.rank() == 0) {
    std::vector<float> images(examples * shape.size());
    fill_sample("sample", "gaussian", 1, images);
    const std::vector<std::int64_t> labels(examples);
    std::vector<std::vector<double>> laps(buckets.size());
    Timer total;
    for (std::size_t time = 0; time <= times || total.seconds() < 0.5; ++time) {
      Timer lap;
      std::vector<std::size_t> missing;
      for (const BucketPlan& bucket : buckets) missing.push_back(bucket.last - bucket.first);
      std::size_t next = 0;
      const auto ready = [&](std::size_t segment) {
        for (std::size_t b = 0; b < buckets.size(); ++b) {
          if (buckets[b].first <= segment && segment < buckets[b].last) --missing[b];
        }
        for (; next < buckets.size() && missing[next] == 0; ++next) laps[next].push_back(lap.lap());
      };
      // `needed` resets the lap, last before the last layer, so that laps do not include forward.
      model.accumulate_gradient({images, labels, shape}, 1, 1,
                                {.needed = [&](std::size_t) { lap.lap(); }, .ready = ready});
      if (time == 0) std::ranges::for_each(laps, [](auto& each) { each.clear(); });  // the first run warms up
    }
    std::ranges::transform(laps, all.begin(), median);
    double sum = 0;
    for (const double seconds : all) sum += seconds;
    for (double& seconds : all) seconds /= sum;
  }
  communicator.broadcast(std::as_writable_bytes(std::span(all)), 0);
  return all;
}

// Offers the same synthetic gradient in every step, bucket by bucket, as backward would.
class Sleeper final : public Worker {
 public:
  Sleeper(Model& model, std::vector<BucketPlan> buckets, std::vector<double> shares, int rank, double seconds)
      : model_(model),
        buckets_(std::move(buckets)),
        shares_(std::move(shares)),
        optimiser_(make_optimiser(optimiser_table().read("optimiser", "sgd(momentum=0.9)"), model.layout())),
        made_(model.layout().size()),
        seconds_(seconds) {
    for (const Segment& segment : model.layout().segments()) {  // padding stays zero
      const Range range = segment.range();
      fill_sample("sample", "gaussian", static_cast<std::uint64_t>(rank) * 1000 + range.begin,
                  std::span(made_).subspan(range.begin, range.end - range.begin));
    }
  }
  std::span<float> parameters() override { return model_.parameters(); }
  std::span<float> gradient() override { return model_.gradient(); }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return *optimiser_; }
  double compute_gradient(std::uint64_t /*step*/, const BucketCalls& calls) override {
    auto until = Clock::now();
    // Forward is a third of computing. In both directions each bucket takes its share.
    for (std::size_t b = buckets_.size(); b-- > 0;) {
      calls.needed(b);
      until = std::max(until, Clock::now());
      sleep(until, seconds_ / 3 * shares_[b]);
    }
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const Range range = buckets_[b].range;
      sleep(until, seconds_ * 2 / 3 * shares_[b]);
      std::copy_n(made_.begin() + static_cast<std::ptrdiff_t>(range.begin), range.end - range.begin,
                  gradient().begin() + static_cast<std::ptrdiff_t>(range.begin));
      calls.ready(b);
    }
    return 0;
  }

 private:
  static void sleep(Clock::time_point& until, double seconds) {
    until += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    std::this_thread::sleep_until(until);
  }

  Model& model_;
  std::vector<BucketPlan> buckets_;
  std::vector<double> shares_;  // each bucket's share of computing
  std::unique_ptr<Optimiser> optimiser_;
  std::vector<float> made_;
  double seconds_;
};

int run(const Arguments& arguments) {
  World world = find_world("");
  world.stores = &plain_stores();
  const std::chrono::seconds deadline(arguments.deadline);
  auto communicator = connect_gloo(world, {.deadline = deadline, .connect_deadline = deadline});
  if (!arguments.link.empty()) {
    communicator = make_shaped(std::move(communicator), parse_links("link", arguments.link, world.size));
  }
  const ImageModelSpec spec = image_model_table().read("model", arguments.model);
  const ImageModelEntry& entry = *spec.entry;
  const auto model = make_image_model(spec, entry.shape, entry.classes, 1);
  const auto bytes = static_cast<std::size_t>(arguments.bucket_kib) * 1024;
  const double compute = arguments.compute * (world.rank == arguments.slow_rank ? arguments.slow : 1);
  const auto buckets = plan_buckets(model->layout(), bytes);
  Sleeper worker(*model, buckets, shares(*model, entry.shape, buckets, *communicator), world.rank, compute);
  AlgorithmOptions options = arguments.options;
  options.phases = {{0, read_recipe(arguments.codec, arguments.aggregator)}};
  const auto algorithm =
      make_algorithm(read_algorithm("algorithm", arguments.algorithm), options, worker.buckets(), *communicator);

  const auto traffic = [&] {  // includes mailboxes
    Traffic all = communicator->traffic();
    const Traffic mail = algorithm->status().traffic;
    all.bytes_sent += mail.bytes_sent;
    all.bytes_received += mail.bytes_received;
    all.messages_sent += mail.messages_sent;
    return all;
  };
  std::vector<double> seconds, encode, network, decode, wait;
  Traffic before;
  Timer lap, total;
  double first = 0;
  for (std::int64_t step = 0; step < arguments.warm + arguments.steps; ++step) {
    if (step == arguments.warm) {
      algorithm->drain();
      communicator->barrier();
      before = traffic();
      lap.lap();
      first = total.seconds();
    }
    const StepReport report = algorithm->step(worker, {static_cast<std::uint64_t>(step), 1e-3});
    const double lasted = lap.lap();
    if (step < arguments.warm) continue;
    seconds.push_back(lasted);
    encode.push_back(report.timings.encode);
    network.push_back(report.timings.network);
    decode.push_back(report.timings.decode);
    wait.push_back(report.wait);
  }
  const double own = total.seconds() - first;
  algorithm->drain();
  const double all = total.seconds() - first;
  const Traffic after = traffic();
  const auto steps = static_cast<double>(arguments.steps);
  fmt::print(
      "{{\"rank\": {}, \"seconds\": {:.6f}, \"mean_seconds\": {:.6f}, \"own_seconds\": {:.6f}, \"encode\": {:.6f}, "
      "\"network\": {:.6f}, "
      "\"decode\": {:.6f}, \"wait\": {:.6f}, \"compute\": {:.6f}, \"bytes_sent\": {:.0f}, \"bytes_received\": {:.0f}, "
      "\"messages\": {:.2f}, \"aggregator\": \"{}\"}}\n",
      world.rank, median(seconds), all / steps, own / steps, median(encode), median(network), median(decode),
      median(wait), compute, static_cast<double>(after.bytes_sent - before.bytes_sent) / steps,
      static_cast<double>(after.bytes_received - before.bytes_received) / steps,
      static_cast<double>(after.messages_sent - before.messages_sent) / steps, algorithm->status().aggregator);
  std::fflush(stdout);
  communicator->barrier();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const sotto::Error& error) {
    std::fprintf(stderr, "bench_exchange: %s\n", error.what());
    return 1;
  }
}
