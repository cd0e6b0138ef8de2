#include "sotto/train/tensorboard.h"

#include <fmt/format.h>

#include <optional>

#include "sotto/algorithm/algorithm.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/train/event_file.h"

namespace sotto {
namespace {

class TensorBoard final : public Listener {
 public:
  explicit TensorBoard(const Choices& choices)
      : folder_(*choices.options.tensorboard),
        algorithm_(choices.algorithm),
        examples_of_rank_(choices.options.batch_size * choices.options.accumulate) {
    if (!choices.options.resume && EventFile::has_any(folder_)) {
      throw ConfigError(
          fmt::format("{}: holds the events of another run, and TensorBoard would draw both as one; choose "
                      "another folder",
                      named("tensorboard", folder_.string())));
    }
    make_folder(folder_);  // now, since an error must not leave a run that has begun
  }

  // Steps count from 1 here, as in the curves of a report: the number of steps made.
  void begin(const RunStart& start) override {
    examples_ = examples_of_rank_ * (start.ranks - idle_ranks(algorithm_, start.ranks));
    if (start.rank == start.shown) file_.emplace(folder_, start.first_step + 1);
  }

  void stepped(const StepRow& row) override {
    if (!file_) return;
    const StepReport& r = row.report;
    sent_ += static_cast<double>(row.bytes_sent);
    file_->add(row.step + 1, {{"train/loss", r.loss},
                              {"train/learning-rate", row.lr},
                              {"train/epoch", row.epoch},
                              {"rate/steps-a-second", 1 / r.seconds},
                              {"rate/examples-a-second", static_cast<double>(examples_) / r.seconds},
                              {"bytes/sent-a-step", static_cast<double>(row.bytes_sent)},
                              {"bytes/sent-since-start", sent_},
                              {"ms/step", r.seconds * 1e3},
                              {"ms/compute", r.compute * 1e3},
                              {"ms/data", row.data_seconds * 1e3},
                              {"ms/wait", r.wait * 1e3},
                              {"ms/encode", r.timings.encode * 1e3},
                              {"ms/network", r.timings.network * 1e3},
                              {"ms/decode", r.timings.decode * 1e3}});
  }

  void evaluated(std::span<const EvaluationRow> rows, const TestResult& tested) override {
    if (!file_) return;
    std::vector<std::string> tags;
    for (const EvaluationRow& row : rows) {
      const std::string_view split = row.split == Split::test ? "test" : "train-mean";
      std::vector<EventScalar> scalars;
      tags.clear();
      for (const Metric& metric : row.metrics.kinds) tags.push_back(fmt::format("{}/{}", split, metric.name));
      for (std::size_t i = 0; i < tags.size(); ++i) scalars.push_back({tags[i], row.metrics.values[i]});
      if (row.split == Split::test) {
        scalars.push_back({"bytes/sent-by-all-ranks", static_cast<double>(row.bytes_sent)});
        if (!tested.rank_goals.empty()) scalars.push_back({"test/consensus-distance", tested.consensus_distance});
      }
      file_->add(row.step, scalars);
    }
    file_->flush();
  }

 private:
  std::filesystem::path folder_;
  AlgorithmSpec algorithm_;
  std::int64_t examples_of_rank_, examples_ = 0;  // of a step: of one rank that computes, and of all of them
  double sent_ = 0;
  std::optional<EventFile> file_;  // none: another rank's steps are shown
};

}  // namespace

std::unique_ptr<Listener> make_tensorboard(const Choices& choices) { return std::make_unique<TensorBoard>(choices); }

}  // namespace sotto
