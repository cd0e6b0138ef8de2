#include "tests/algorithm/transports.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "sotto/comm/emulated/threads.h"
#include "tests/algorithm/quadratic.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto::test {
namespace {

using namespace std::chrono_literals;

struct Job {
  const char* algorithm;
  const char* codec = "none";
  const char* aggregator = "auto";
  const char* topology = "";
  const char* mixing = "uniform";
  int ranks_of = 1;  // runs only where the number of ranks is a multiple of this
};

// Every algorithm whose numbers do not depend on time, every aggregator, and every way of computing during an exchange.
constexpr std::array jobs{
    Job{"sync"},
    Job{"sync", "qsgd(bits=4)", "gather"},
    Job{"sync", "ef | topk(0.1)", "scatter_reduce"},
    Job{"sync", "signs", "vote"},
    Job{"sync(priority=need)", "qsgd(bits=4)", "scatter_reduce"},
    Job{"sync", "power(2)"},
    Job{"sync", "ef | topk(0.2)", "sparse"},
    Job{"sync", "ef | topk(0.2)", "hierarchical(inner=all_reduce, outer=gather, group=2)", "", "uniform", 2},
    Job{"sync", "fetch(0.2) | count_sketch(rows=3, columns=40%)"},
    Job{"push_sum", "none", "auto", "exponential"},
    Job{"push_sum(overlap=true)", "f16", "auto", "directed_exponential"},
    Job{"d_psgd", "none", "auto", "ring", "metropolis"},
    Job{"choco", "qsgd(bits=4)", "auto", "static_exponential"},
    Job{"choco", "topk(0.6)", "auto", "star", "metropolis"},
    Job{"local(h=3)", "ef | topk(0.1)"},
    Job{"slowmo(h=3, buffers=average)"},
    Job{"diloco(h=4, shards=2, overlap=1)", "int8"},
    Job{"parameter_server", "qsgd(bits=4)"},
    Job{"parameter_server(servers=2)", "f16", "auto", "", "uniform", 2},
};

struct End {
  std::vector<float> parameters;
  std::uint64_t bytes_sent = 0;
};

End train(const Job& job, Communicator& communicator) {
  const std::uint64_t before = communicator.traffic().bytes_sent;
  AlgorithmOptions options{.phases = test::read_phases(job.codec, job.aggregator), .mixing = test::mixing(job.mixing)};
  if (*job.topology != '\0') options.topology = test::topology(job.topology);
  Quadratic worker(communicator.rank());
  const auto algorithm = make_algorithm(test::algorithm(job.algorithm), options, worker.buckets(), communicator);
  for (std::uint64_t step = 0; step < 11; ++step) algorithm->step(worker, {step, 0.05, false});
  algorithm->drain();
  algorithm->average_models(worker);
  const auto end = worker.parameters();
  return {{end.begin(), end.end()}, communicator.traffic().bytes_sent - before};
}

// Ranks go at their own speed. The result is known within bounds, and all ranks have it to the last bit.
void check_own_speed(Communicator& communicator, const char* algorithm) {
  AlgorithmOptions options{.phases = test::read_phases("f16"), .topology = test::topology("star")};
  Quadratic worker(communicator.rank(), "sgd");
  const auto asked = make_algorithm(test::algorithm(algorithm), options, worker.buckets(), communicator);
  for (std::uint64_t step = 0; step < 200; ++step) asked->step(worker, {step, 0.05, false});
  asked->drain();
  asked->average_models(worker);
  const auto mine = std::as_bytes(worker.parameters());
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(mine, all);
  const float mean = static_cast<float>(communicator.size() + 1) / 2;
  const bool alike = std::memcmp(all.data(), mine.data(), mine.size()) == 0;
  if (!alike || !(std::abs(worker.parameters()[0] - mean) < 0.5F * static_cast<float>(communicator.size()))) {
    throw std::runtime_error(fmt::format("{} on rank {} of {} over {}: {}, {} the others, near {}", algorithm,
                                         communicator.rank(), communicator.size(), communicator.name(),
                                         worker.parameters()[0], alike ? "as" : "unlike", mean));
  }
}

}  // namespace

void check_as_on_threads(Communicator& communicator) {
  for (const char* algorithm : {"ad_psgd", "ad_psgd(every=0)", "parameter_server(mode=async)"}) {
    check_own_speed(communicator, algorithm);
  }
  for (const Job& job : jobs) {
    if (communicator.size() % job.ranks_of != 0) continue;
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
