#include "tests/algorithm/transports.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "sotto/comm/threads.h"
#include "tests/algorithm/quadratic.h"

namespace sotto::test {
namespace {

using namespace std::chrono_literals;

struct Job {
  const char* algorithm;
  const char* codec = "none";
  const char* aggregator = "auto";
  const char* topology = "";
  const char* mixing = "uniform";
};

// Each algorithm, aggregator, and way of computing beside what is on its way.
constexpr std::array jobs{
    Job{"sync"},
    Job{"sync", "qsgd(bits=4)", "gather"},
    Job{"sync", "ef | topk(0.1)", "scatter_reduce"},
    Job{"sync", "signs", "vote"},
    Job{"sync(priority=need)", "qsgd(bits=4)", "scatter_reduce"},
    Job{"sync", "power(2)"},
    Job{"push_sum", "none", "auto", "exponential"},
    Job{"push_sum(overlap=true, synch_freq=2)", "f16", "auto", "directed_exponential"},
    Job{"d_psgd", "none", "auto", "ring", "metropolis"},
    Job{"choco", "qsgd(bits=4)", "auto", "static_exponential"},
    Job{"choco", "topk(0.6)", "auto", "star", "metropolis"},
    Job{"local(h=3)", "ef | topk(0.1)"},
    Job{"slowmo(h=3, buffers=average)"},
    Job{"diloco(h=4, shards=2, overlap=1)", "int8"},
};

struct End {
  std::vector<float> parameters;
  std::uint64_t bytes_sent = 0;
};

End train(const Job& job, Communicator& communicator) {
  const std::uint64_t before = communicator.traffic().bytes_sent;
  AlgorithmOptions options{.codec = job.codec, .aggregator = job.aggregator, .mixing = job.mixing};
  if (*job.topology != '\0') options.topology = job.topology;
  Quadratic worker(communicator.rank());
  const auto algorithm = make_algorithm("test", job.algorithm, options, worker.buckets(), communicator);
  for (std::uint64_t step = 0; step < 11; ++step) algorithm->step(worker, {step, 0.05, false});
  algorithm->rest();
  algorithm->agree(worker);
  const auto end = worker.parameters();
  return {{end.begin(), end.end()}, communicator.traffic().bytes_sent - before};
}

}  // namespace

void check_as_on_threads(Communicator& communicator) {
  for (const Job& job : jobs) {
    const End found = train(job, communicator);
    End wanted;
    run_threads(communicator.size(), 60s, [&](Communicator& threads) {
      End end = train(job, threads);
      if (threads.rank() == communicator.rank()) wanted = std::move(end);
    });
    const auto fail = [&](const std::string& what) {
      throw std::runtime_error(fmt::format("{} with {} on rank {} of {} over {}: {}", job.algorithm, job.codec,
                                           communicator.rank(), communicator.size(), communicator.name(), what));
    };
    for (std::size_t i = 0; i < wanted.parameters.size(); ++i) {
      if (std::memcmp(&found.parameters[i], &wanted.parameters[i], sizeof(float)) != 0)
        fail(fmt::format("parameter {} is {}, on threads {}", i, found.parameters[i], wanted.parameters[i]));
    }
    if (found.bytes_sent != wanted.bytes_sent)
      fail(fmt::format("{} bytes sent, on threads {}", found.bytes_sent, wanted.bytes_sent));
  }
}

}  // namespace sotto::test
