#include "app/train/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <thread>

#include "app/task/table.h"
#include "app/train/folder/checkpoint.h"
#include "app/train/folder/safetensors.h"
#include "app/train/identity.h"
#include "app/train/options/options.h"
#include "sotto/core/file.h"
#include "sotto/core/thread_pool.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// The options of the run, with other data if `options` say so.
TrainOptions run_of(const EvalOptions& options) {
  TrainOptions run;
  from_toml((std::filesystem::path(options.model_dir) / "config.toml").string(), run);
  if (options.data && options.data != run.data.data) run.data = {.data = *options.data};
  if (options.data_dir) run.data.data_dir = *options.data_dir;
  run.data.train_size = 0;
  if (options.test_size) run.data.test_size = *options.test_size;
  return run;
}

// The text, or the part of it around the character at `place`.
std::string around(const std::string& text, std::size_t place) {
  constexpr std::size_t room = 60;
  if (text.size() <= 2 * room) return text;
  const std::size_t begin = place < room ? 0 : place - room;
  return (begin > 0 ? ".." : "") + text.substr(begin, 2 * room) + (begin + 2 * room < text.size() ? ".." : "");
}

void require_meaning(const DataOptions& data, const std::string& here, const std::string& of_run) {
  const auto [differs, other] = std::ranges::mismatch(here, of_run);
  if (differs == here.end() || other == of_run.end()) return;
  const auto place = static_cast<std::size_t>(differs - here.begin());
  throw ConfigError(fmt::format("{}: these data have {}, and the run was trained with {}",
                                data.data_dir.empty() ? named("data", data.data) : named("data-dir", data.data_dir),
                                around(here, place), around(of_run, place)));
}

// Ends an evaluation between two batches.
struct Left {};

// Evaluates checkpoints with one task, as long as they have the same model.
class Checkpoints {
 public:
  explicit Checkpoints(const EvalOptions& options) : options_(options) {}

  // `after_batch` hears how many of how many examples are done.
  EvalLine evaluate(std::uint64_t step,
                    const std::function<void(std::uint64_t examples, std::uint64_t of)>& after_batch) {
    const std::filesystem::path folder = checkpoint::folder(options_.model_dir, step);
    Manifest manifest;
    std::filesystem::path file;
    try {
      manifest = Manifest::of_text(read_manifest_text(folder));
      ThreadPool pool(1);
      file = whole_model_file(folder, manifest, pool);
    } catch (const FileError& error) {
      return {.step = step, .metrics = {}, .problem = error.what()};
    }
    const SafetensorsReader reader(file);
    const bool is_new = !task_ || manifest.identity.at("model") != model_;
    if (is_new) make_task(manifest.identity, file);
    reader.read(task_->layout(), task_->parameters());
    reader.read(task_->buffer_layout(), task_->buffers());
    const std::uint64_t all = task_->examples(Split::test);
    const Metrics metrics =
        task_->metrics(task_->evaluate(Split::test, {}, [&](std::uint64_t examples) { after_batch(examples, all); }));
    if (!options_.texts.empty()) write_texts(step);
    return {step, metrics, is_new ? task_->remarks() : std::vector<std::string>()};
  }

 private:
  // Each text is one line of the file, so a line break within a text becomes a blank.
  void write_texts(std::uint64_t step) const {
    std::string lines;
    for (const std::string& text : task_->texts()) {
      std::ranges::replace_copy_if(
          text, std::back_inserter(lines), [](char c) { return c == '\n' || c == '\r'; }, ' ');
      lines += '\n';
    }
    make_folder(options_.texts);
    write_file_atomic(std::filesystem::path(options_.texts) / fmt::format("step_{}.txt", step),
                      std::string_view(lines));
  }

  void make_task(const checkpoint::Metadata& identity, const std::filesystem::path& file) {
    const std::string& model = identity.at("model");
    const TrainOptions run = run_of(options_);
    const TaskEntry& task = task_table().require(options_.model_dir + ": task", run.task);
    TaskSetup setup{.model = task.read_model(parse_model(file.string() + ": model", model)), .data = run.data};
    const auto library = identity.find("model-library");
    if (setup.model.fingerprint != (library == identity.end() ? "" : library->second)) {
      throw ConfigError(fmt::format("{}: it is of another build of {}", file.string(), model));
    }
    const auto meaning = identity.find(data_meaning);
    if (meaning != identity.end()) setup.meaning = meaning->second;
    setup.batch = 0;
    setup.test_batch = static_cast<std::size_t>(options_.batch_size);
    task_ = task.make(setup);
    require_meaning(run.data, task_->meaning(), setup.meaning);
    model_ = model;
    if (!options_.texts.empty() && task_->texts().empty()) {
      throw ConfigError(fmt::format("{}: the model of this run makes no text; translations are texts",
                                    named("texts", options_.texts)));
    }
  }

  const EvalOptions& options_;
  std::unique_ptr<Task> task_;
  std::string model_;
};

}  // namespace

void EvalOptions::visit(OptionVisitor& v) {
  v.option("model-dir", model_dir, "run folder with model_step_N checkpoints");
  v.option("data", data, "data set; auto: the run's");
  v.option("data-dir", data_dir, "folder of the data set's files; auto: the run's");
  v.option("test-size", test_size, "use only the first N test examples; 0: all; auto: as the run did", {0, 1e7});
  v.option("eval-batch-size", batch_size, "examples at a time", Bounds::at_least(1));
  v.option("texts", texts, "folder for the translations of the test data: step_N.txt, a line a sentence");
  v.option("follow", follow, "continue looking for new checkpoints, also of a folder that is not there yet");
  v.option("poll", poll, "seconds between two looks", Bounds::positive());
}

void evaluate_folder(const EvalOptions& options, const std::function<void(const EvalLine&)>& report,
                     const EvalProgress& progress, const std::function<bool()>& keep_going) try {
  std::error_code missing;
  if (!options.follow && !std::filesystem::is_directory(options.model_dir, missing)) {
    throw ConfigError(fmt::format("{}: there is no such folder; {} waits for it", named("model-dir", options.model_dir),
                                  named("follow")));
  }
  std::set<std::uint64_t> seen;
  Checkpoints checkpoints(options);
  for (;;) {
    for (const std::uint64_t step : checkpoint::find(options.model_dir)) {
      if (!keep_going()) return;
      if (!seen.insert(step).second) continue;
      const EvalLine line = checkpoints.evaluate(step, [&](std::uint64_t examples, std::uint64_t of) {
        if (!keep_going()) throw Left();
        progress(step, examples, of);
      });
      // The run may have removed it in the meantime: it does not keep all of its checkpoints.
      if (line.problem.empty() || path_exists(checkpoint::folder(options.model_dir, step))) report(line);
    }
    if (!options.follow) break;
    for (Timer waited; waited.seconds() < options.poll;) {
      if (!keep_going()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  if (seen.empty()) {
    throw ConfigError(fmt::format("{}: holds no model_step_N; {} waits for one", named("model-dir", options.model_dir),
                                  named("follow")));
  }
} catch (const Left&) {  // NOLINT(bugprone-empty-catch)
}

}  // namespace sotto
