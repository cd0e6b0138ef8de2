// Costs per rank of many ranks. Ranks are threads of one process, each with its own tiny model, so that little else
// takes time or memory. Prints for each algorithm and number of ranks: seconds until all ranks have made their first
// step, messages that a rank sends per step, and resident memory per rank, without the model, its gradient and
// momentum.
//
//     bench_ranks [ALGORITHM ...] [RANKS ...]        default: all of them; 64 256 1024
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/threads.h"
#include "sotto/core/options.h"
#include "sotto/core/timer.h"
#include "sotto/optim/optimiser.h"

namespace {

using namespace sotto;

constexpr std::uint64_t steps = 5;  // after the first

// Ten tensors in two buckets. Its gradient pulls them towards a target that differs between ranks.
class TinyModel final : public Worker {
 public:
  explicit TinyModel(int rank) : target_(static_cast<float>(rank)) {
    for (int i = 0; i < 10; ++i) layout_.append(fmt::format("layer{}.weight", i), {10, 32});
    buckets_ = plan_buckets(layout_, 4 * layout_.size() / 2);
    parameters_.resize(layout_.size());
    gradient_.resize(layout_.size());
    optimiser_ = make_optimiser(optimiser_table().read("optimiser", "sgd(momentum=0.9)"), layout_);
  }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<const BucketPlan> buckets() const override { return buckets_; }
  Optimiser& optimiser() override { return *optimiser_; }
  double compute_gradient(std::uint64_t /*step*/, const BucketCalls& calls) override {
    for (std::size_t b = buckets_.size(); b-- > 0;) calls.needed(b);
    std::ranges::transform(parameters_, gradient_.begin(), [this](float value) { return value - target_; });
    for (std::size_t b = 0; b < buckets_.size(); ++b) calls.ready(b);
    return 0;
  }
  std::size_t bytes() const { return 3 * 4 * layout_.size(); }

 private:
  float target_;
  Layout layout_;
  std::vector<BucketPlan> buckets_;
  std::vector<float> parameters_, gradient_;
  std::unique_ptr<Optimiser> optimiser_;
};

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

struct Subject {
  std::string_view algorithm, topology;
};

void measure(const Subject& subject, int ranks) {
  std::atomic<std::uint64_t> most_messages = 0;
  std::atomic<int> started = 0;
  double start = 0, resident = 0;
  std::size_t model = 0;
  const double before = resident_bytes();
  const Timer timer;
  run_threads(ranks, std::chrono::seconds(300), [&](Communicator& communicator) {
    TinyModel worker(communicator.rank());
    AlgorithmOptions options;
    options.topology = read_topology(subject.topology);
    const auto algorithm =
        make_algorithm(read_algorithm("algorithm", subject.algorithm), options, worker.buckets(), communicator);
    algorithm->step(worker, {0, 0.1, false});
    algorithm->drain();
    if (++started == ranks) start = timer.seconds();
    const auto messages = [&] {
      return communicator.traffic().messages_sent + algorithm->status().traffic.messages_sent;
    };
    const std::uint64_t first = messages();
    for (std::uint64_t step = 1; step <= steps; ++step) algorithm->step(worker, {step, 0.1, false});
    algorithm->drain();
    const std::uint64_t sent = (messages() - first + steps - 1) / steps;
    for (std::uint64_t most = most_messages; sent > most && !most_messages.compare_exchange_weak(most, sent);) continue;
    communicator.barrier();  // no rank has freed anything yet
    if (communicator.rank() == 0) {
      resident = resident_bytes();
      model = worker.bytes();
    }
    communicator.barrier();
  });
  const double each = (resident - before) / ranks - static_cast<double>(model);
  fmt::print("| {} | {} | {} | {:.2f} | {} | {:.3f} |\n", subject.algorithm, subject.topology, ranks, start,
             most_messages.load(), each / 1e6);
  std::fflush(stdout);
}

// Measures in a new process, so that earlier measurements do not count as its memory.
bool measure_apart(const Subject& subject, int ranks) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 0;
    try {
      measure(subject, ranks);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{} on {} ranks: {}\n", subject.algorithm, ranks, error.what());
      status = 1;
    }
    ::_exit(status);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<int> numbers;
    std::vector<std::string_view> chosen;
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      const bool number = word.find_first_not_of("0123456789") == word.npos;
      number ? numbers.push_back(static_cast<int>(parse_int("RANKS", word, {2, 4096}))) : chosen.push_back(word);
    }
    if (numbers.empty()) numbers = {64, 256, 1024};
    fmt::print("| algorithm | topology    | ranks | start s | messages a step | MB a rank |\n");
    fmt::print("| --- | --- | ---: | ---: | ---: | ---: |\n");
    std::fflush(stdout);
    bool good = true;
    constexpr std::array subjects{Subject{"sync", "exponential"},
                                  Subject{"push_sum", "exponential"},
                                  Subject{"d_psgd", "ring"},
                                  Subject{"local(h=1)", "exponential"},
                                  Subject{"parameter_server", "exponential"},
                                  Subject{"parameter_server(mode=async)", "exponential"},
                                  Subject{"ad_psgd", "bipartite_exponential"}};
    for (const Subject& subject : subjects) {
      if (!chosen.empty() && std::ranges::find(chosen, subject.algorithm) == chosen.end()) continue;
      for (const int ranks : numbers) good = measure_apart(subject, ranks) && good;
    }
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_ranks: {}\n", error.what());
    return 2;
  }
}
