// Choosing and reading the checkpoint from which a run continues.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "app/train/folder/run_folder.h"
#include "sotto/core/state_file.h"

namespace sotto {
namespace fs = std::filesystem;
namespace {

// How many ranks have written parts.
int ranks_of(const Manifest& manifest) {
  int ranks = 0;
  while (manifest.parts.contains(checkpoint::rank_file(ranks))) ++ranks;
  return ranks;
}

// Reads vectors of floats as their mean over all parts, and all else from the first part.
class MeanOfParts final : public StateVisitor {
 public:
  explicit MeanOfParts(std::deque<StateReader>& parts) : parts_(parts) {}

  // Sums doubles, so that the mean of equal floats is exactly that float.
  void visit(std::string_view name, std::vector<float>& values) override {
    parts_.front().visit(name, values);
    std::vector<double> sum(values.begin(), values.end());
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      parts_[i].visit(name, values);
      std::ranges::transform(sum, values, sum.begin(), std::plus<>());
    }
    give(sum, values);
  }
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override { visit_first(name, bytes); }
  void visit(std::string_view name, std::uint64_t& value) override { visit_first(name, value); }

  void get(std::string_view name, std::span<float> values) {
    std::vector<double> sum(values.size());
    for (StateReader& part : parts_) {
      part.get(name, values);
      std::ranges::transform(sum, values, sum.begin(), std::plus<>());
    }
    give(sum, values);
  }

 private:
  void give(std::span<const double> sum, std::span<float> mean) const {
    const auto count = static_cast<double>(parts_.size());
    std::ranges::transform(sum, mean.begin(), [&](double all) { return static_cast<float>(all / count); });
  }
  template <class T>
  void visit_first(std::string_view name, T& value) {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) part->visit(name, value);
  }

  std::deque<StateReader>& parts_;
};

}  // namespace

std::uint64_t RunFolder::newest_checkpoint() {
  std::uint64_t newest = 0;
  on_first("look for checkpoints", [&] {
    for (const std::uint64_t step : checkpoint::find(path_)) newest = std::max(newest, step);
  });
  communicator_.broadcast(std::as_writable_bytes(std::span(&newest, 1)), 0);
  return newest;
}

std::vector<std::string> RunFolder::choose_checkpoint(const Check& check) {
  std::vector<std::uint64_t> steps;
  on_first("look for checkpoints", [&] { steps = checkpoint::find(path_); });
  std::vector<std::string> left_aside;
  for (;;) {
    constexpr std::uint64_t none = ~std::uint64_t{0};
    std::uint64_t step = steps.empty() ? none : steps.back();
    communicator_.broadcast(std::as_writable_bytes(std::span(&step, 1)), 0);
    if (step == none) break;
    if (!steps.empty()) steps.pop_back();
    start_step_ = step;
    const fs::path folder = checkpoint::folder(path_, step);
    std::string text, problem;
    on_first("read the manifest of a checkpoint", [&] {
      try {
        text = read_manifest_text(folder);
      } catch (const FileError& error) {
        problem = error.what();
      }
    });
    problem = broadcast_text(problem, communicator_);
    if (problem.empty()) {
      const Manifest manifest = Manifest::of_text(broadcast_text(text, communicator_));
      if (!manifest.parts.contains(checkpoint::rank_file(0))) {
        throw ConfigError(fmt::format("{}: holds imported weights alone; start a run of its own from them with {}",
                                      named("resume", folder.string()),
                                      named("weights", (folder / checkpoint::model_file).string())));
      }
      check(manifest);
      written_by_ = ranks_of(manifest);
      problem = manifest.step == step
                    ? verdict_on(manifest)
                    : fmt::format("{}: holds step {}; it was renamed by hand?", folder.string(), manifest.step);
      if (problem.empty()) {
        start_from(manifest);
        return left_aside;
      }
    }
    left_aside.push_back(problem);
  }
  start_step_ = 0;
  if (left_aside.empty()) return {};
  throw FileError(fmt::format("{}: no checkpoint is whole: {}", path_.string(), fmt::join(left_aside, "; ")));
}

// Why a part differs from the manifest; empty if none does. All ranks get the same text.
std::string RunFolder::verdict_on(const Manifest& manifest) {
  const fs::path folder = checkpoint::folder(path_, manifest.step);
  const auto ranks = manifest.identity.find("ranks");
  if (ranks == manifest.identity.end() || ranks->second != std::to_string(written_by_)) {
    return fmt::format("{}: the manifest does not name the parts of all ranks", folder.string());
  }
  std::array<char, 512> mine{};
  files_.run("check its part of the checkpoint", [&] {
    ThreadPool pool(static_cast<int>(options_.codec_threads));
    std::vector<std::string> parts;  // those that this rank checks; there may be more or fewer parts than ranks
    for (int rank = communicator_.rank(); rank < written_by_; rank += communicator_.size()) {
      parts.push_back(checkpoint::rank_file(rank));
    }
    if (communicator_.rank() == 0) parts.emplace_back(checkpoint::model_file);
    std::string problem;
    for (const std::string& part : parts) {
      if (problem.empty()) problem = problem_of_part(folder, part, manifest, pool);
    }
    std::memcpy(mine.data(), problem.data(), std::min(problem.size(), mine.size() - 1));
  });
  std::vector<char> all(mine.size() * static_cast<std::size_t>(communicator_.size()));
  communicator_.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (std::size_t at = 0; at < all.size(); at += mine.size()) {
    if (all[at] != '\0') return all.data() + at;
  }
  return "";
}

void RunFolder::load(Replica& replica, Algorithm& algorithm, RunTotals& totals) {
  const fs::path folder = checkpoint::folder(path_, start_step_);
  Task& task = replica.task();
  files_.run("read its part of the checkpoint", [&] {
    if (written_by_ != communicator_.size()) {
      return read_other_ranks(folder, written_by_, communicator_.rank(), own_parameters(replica), replica, algorithm,
                              totals);
    }
    StateReader own(folder / own_file());
    own.get("buffers", task.buffers());
    if (own_parameters(replica)) {
      own.get("parameters", task.parameters());
    } else {
      SafetensorsReader(folder / checkpoint::model_file).read(task.layout(), task.parameters());
    }
    totals.visit_state(own);
    replica.visit_state(own);
    replica.visit_trained(own);
    algorithm.visit_state(own);
    own.finish();
  });
}

void read_other_ranks(const std::filesystem::path& folder, int written_by, int rank, bool own_parameters,
                      Replica& replica, Algorithm& algorithm, RunTotals& totals) {
  std::deque<StateReader> parts;  // by rank
  for (int r = 0; r < written_by; ++r) parts.emplace_back(folder / checkpoint::rank_file(r));
  Task& task = replica.task();
  MeanOfParts mean(parts);
  mean.get("buffers", task.buffers());
  if (own_parameters) {
    mean.get("parameters", task.parameters());
  } else {
    SafetensorsReader(folder / checkpoint::model_file).read(task.layout(), task.parameters());
  }
  replica.visit_state(mean);

  Tally counted(task.trained().size());
  totals = {};
  for (StateReader& part : parts) {
    RunTotals own;
    own.visit_state(part);
    totals.bytes_sent += own.bytes_sent;
    totals.seconds = std::max(totals.seconds, own.seconds);
    replica.visit_trained(part);
    std::ranges::transform(counted, task.trained(), counted.begin(), std::plus<>());
  }
  task.trained() = counted;
  if (rank > 0) {
    totals.bytes_sent = 0;
    std::ranges::fill(task.trained(), 0.0);
  }

  std::vector<FormerRank> each;
  for (StateReader& part : parts) {
    each.push_back({static_cast<int>(each.size()), written_by, &part});
  }
  algorithm.elastic()->visit_shared(mean);
  algorithm.elastic()->take_over(each);
  for (const StateReader& part : parts) part.finish();
}

}  // namespace sotto
