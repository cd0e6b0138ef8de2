#include "sotto/train/evaluator.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "sotto/core/error.h"
#include "sotto/core/state_file.h"
#include "sotto/core/timer.h"
#include "sotto/model/model.h"
#include "sotto/train/checkpoint.h"
#include "sotto/train/evaluate.h"
#include "sotto/train/options.h"

namespace sotto {
namespace {

// The data that the run was tested on, but for what the options say.
DataOptions data_of(const EvalOptions& options) {
  TrainOptions run;
  from_toml((std::filesystem::path(options.model_dir) / "config.toml").string(), run);
  if (!options.data.empty() && options.data != run.data.data) run.data = {.data = options.data};
  if (!options.data_dir.empty()) run.data.data_dir = options.data_dir;
  run.data.train_size = 0;
  if (options.test_size >= 0) run.data.test_size = options.test_size;
  return run.data;
}

EvalLine evaluate_checkpoint(const std::filesystem::path& folder, std::uint64_t step, const EvalOptions& options,
                             std::unique_ptr<Dataset>& data) {
  const std::filesystem::path file = folder / "model";
  StateReader reader(file);
  checkpoint::Metadata metadata = checkpoint::from_text(reader.text());
  if (!data) {
    data = open_dataset(data_of(options), Split::test);
  }
  const auto model =
      make_model("--model-dir " + file.string() + ": model", metadata["model"], data->shape(), data->classes(), 1);
  const bool others = reader.has(checkpoint::evaluated_parameters);
  reader.get(others ? checkpoint::evaluated_parameters : "parameters", model->parameters());
  reader.get("buffers", model->buffers());
  const Score score = evaluate_share(*model, *data, static_cast<std::size_t>(options.batch_size), 0, 1);
  const auto count = static_cast<double>(std::max<std::uint64_t>(1, score.count));
  return {step, score.loss / count, 100.0 * static_cast<double>(score.top1) / count,
          100.0 * static_cast<double>(score.top5) / count};
}

}  // namespace

void EvalOptions::visit(OptionVisitor& v) {
  v.option("model-dir", model_dir, "run folder with model_step_N checkpoints");
  v.option("data", data, "data set; empty: the run's");
  v.option("data-dir", data_dir, "folder of the data set's files; empty: the run's");
  v.option("test-size", test_size, "use only the first N test examples; 0: all, -1: as the run did", {-1, 1e7});
  v.option("eval-batch-size", batch_size, "examples at a time", Bounds::at_least(1));
  v.option("follow", follow, "go on looking for new checkpoints");
  v.option("poll", poll, "seconds between two looks", Bounds::positive());
}

void evaluate_folder(const EvalOptions& options, const std::function<void(const EvalLine&)>& report,
                     const std::function<bool()>& keep_going) {
  std::error_code missing;
  if (!std::filesystem::is_directory(options.model_dir, missing)) {
    throw ConfigError("--model-dir " + options.model_dir + ": there is no such folder");
  }
  std::set<std::uint64_t> seen;
  std::unique_ptr<Dataset> data;
  for (;;) {
    for (const std::uint64_t step : checkpoint::find(options.model_dir)) {
      if (!keep_going()) return;
      if (seen.insert(step).second) {
        report(evaluate_checkpoint(checkpoint::folder(options.model_dir, step), step, options, data));
      }
    }
    if (!options.follow) break;
    for (Timer waited; waited.seconds() < options.poll;) {
      if (!keep_going()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  if (seen.empty()) {
    throw ConfigError("--model-dir " + options.model_dir + ": holds no model_step_N; --follow waits for one");
  }
}

}  // namespace sotto
