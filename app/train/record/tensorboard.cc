#include "app/train/record/listener.h"

#include <fmt/format.h>

#include <optional>

#include "app/train/record/event_file.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

class TensorBoard final : public Listener {
 public:
  explicit TensorBoard(const Choices& choices)
      : folder_(*choices.options.tensorboard),
        algorithm_(choices.algorithm),
        examples_of_rank_(choices.options.batch_size * choices.options.accumulate) {
    check_tensorboard(choices.options);
    make_folder(folder_);  // now, since an error must not leave a run that has begun
  }

  // Steps count from 1 here, as in the curves of a report: the number of steps made.
  void begin(const RunStart& start) override {
    examples_ = examples_of_rank_ * (start.ranks - idle_ranks(algorithm_, start.ranks));
    if (start.rank == start.shown) file_.emplace(folder_, start.first_step + 1);
  }

  void stepped(const TrainedStep& row) override {
    if (!file_) return;
    sent_ += static_cast<double>(row.bytes_sent);
    file_->add(row.step + 1, {{"train/loss", row.loss},
                              {"train/learning-rate", row.lr},
                              {"train/epoch", row.epoch},
                              {"rate/steps-a-second", 1e3 / row.step_ms},
                              {"rate/examples-a-second", 1e3 * static_cast<double>(examples_) / row.step_ms},
                              {"bytes/sent-a-step", static_cast<double>(row.bytes_sent)},
                              {"bytes/sent-since-start", sent_},
                              {"ms/step", row.step_ms},
                              {"ms/compute", row.compute_ms},
                              {"ms/data", row.data_ms},
                              {"ms/wait", row.wait_ms},
                              {"ms/encode", row.encode_ms},
                              {"ms/network", row.network_ms},
                              {"ms/decode", row.decode_ms}});
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

void check_tensorboard(const TrainOptions& options) {
  if (!options.tensorboard || options.resume || !EventFile::has_any(*options.tensorboard)) return;
  throw ConfigError(
      fmt::format("{}: holds the events of another run, and TensorBoard would draw both as one; choose "
                  "another folder",
                  named("tensorboard", *options.tensorboard)));
}

std::unique_ptr<Listener> make_tensorboard(const Choices& choices) { return std::make_unique<TensorBoard>(choices); }

}  // namespace sotto
