#include "app/train/folder/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "app/train/folder/checkpoint.h"
#include "app/train/options/choices.h"
#include "sotto/core/file.h"
#include "sotto/optim/parameter_groups.h"

namespace sotto {
namespace {

constexpr std::uint64_t longest_index = 100'000'000;  // as long as a header may be

// The text of a file that begins like JSON; nothing for any other file. A safetensors file begins with the length of
// its header in eight bytes. The last of these is zero, since no header has 2^56 bytes.
std::optional<std::string> json_text(const FileReader& file) {
  std::string text(8, '\0');
  if (file.size() < text.size() || file.size() > longest_index) return std::nullopt;
  file.read(0, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{') || text.back() == '\0') return std::nullopt;
  text.resize(file.size());
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

// Torch counts batches in each batch norm. Nothing here depends on that number.
bool is_counter(const std::string& name) { return name.ends_with("num_batches_tracked"); }

// Reads a file into the parameters and buffers of a task. The file has a tensor under its name in the model or, as in
// some published files, under this name without the part before the first dot. Tensors that a pattern of `except`
// matches stay as they are. Returns the names of tensors of the file that were not used. FileError, which names the
// file, for a tensor that is missing, of another shape, or not finite.
std::vector<std::string> read_weights(const WeightsFile& file, const std::string& path, Task& task,
                                      std::span<const std::string> except = {}) {
  const std::vector<std::string> names = file.names();
  std::set<std::string> unused(names.begin(), names.end());
  std::erase_if(unused, is_counter);
  const auto read = [&](const Layout& layout, std::span<float> values) {
    for (const Segment& segment : layout.segments()) {
      const std::string shorter = segment.name.substr(segment.name.find('.') + 1);
      const std::string& name = !file.has(segment.name) && file.has(shorter) ? shorter : segment.name;
      const auto keeps = [&](const std::string& pattern) { return matches(pattern, segment.name); };
      if (std::ranges::any_of(except, keeps)) {
        unused.erase(name);
        continue;
      }
      const auto its = values.subspan(segment.offset, segment.numel());
      file.read(name, segment.shape, its);
      const auto bad = std::ranges::find_if(its, [](float value) { return !std::isfinite(value); });
      if (bad != its.end()) throw FileError(fmt::format("{}: tensor {} holds {}", path, name, *bad));
      unused.erase(name);
    }
  };
  read(task.layout(), task.parameters());
  read(task.buffer_layout(), task.buffers());
  return {unused.begin(), unused.end()};
}

}  // namespace

WeightsFile::WeightsFile(const std::filesystem::path& path) : path_(path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    fail(
        "it is a folder; name the file in it: model.safetensors, or model.safetensors.index.json if there are several");
  }
  if (const auto index = json_text(FileReader(path))) {
    try {
      read_index(*index);
    } catch (const nlohmann::json::exception& error) {
      fail(fmt::format("not an index of safetensors files: {}", error.what()));
    }
    return;
  }
  const SafetensorsReader& only = files_.try_emplace(path.filename().string(), path).first->second;
  for (const std::string& name : only.names()) tensors_.emplace(name, &only);
}

void WeightsFile::read_index(const std::string& text) {
  const nlohmann::json index = nlohmann::json::parse(text);
  if (!index.contains("weight_map")) {
    fail("it has no `weight_map`, so it is no index of safetensors files, such as model.safetensors.index.json");
  }
  for (const auto& [tensor, entry] : index.at("weight_map").items()) {
    const auto& file = entry.get_ref<const std::string&>();
    const std::filesystem::path name(file);
    if (name.filename() != name || file == "..")
      fail(fmt::format("tensor {}: `{}` is no name of a file beside it", tensor, file));
    const auto found = files_.find(file);
    const SafetensorsReader& reader =
        found != files_.end() ? found->second : files_.try_emplace(file, path_.parent_path() / name).first->second;
    if (!reader.has(tensor)) fail(fmt::format("tensor {} is not in {}, where it should be", tensor, file));
    tensors_.emplace(tensor, &reader);
  }
}

std::vector<std::string> WeightsFile::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, file] : tensors_) names.push_back(name);
  return names;
}

void WeightsFile::read(std::string_view name, std::span<const std::int64_t> shape, std::span<float> values) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(fmt::format("tensor {} is missing", name));
  found->second->read(name, shape, values);
}

void WeightsFile::fail(const std::string& why) const { throw FileError(fmt::format("{}: {}", path_.string(), why)); }

std::string start_from_weights(const TrainOptions& options, Task& task) {
  const bool resumes = options.resume && !checkpoint::find(options.train_dir).empty();
  if (options.weights.empty() || resumes) return "";
  std::vector<std::string> except;
  if (!options.weights_except.empty()) {
    except = read_patterns(named("weights-except", options.weights_except), options.weights_except);
  }
  for (const std::string& pattern : except) {
    const auto fits = [&](const Segment& segment) { return matches(pattern, segment.name); };
    if (std::ranges::any_of(task.layout().segments(), fits)) continue;
    if (std::ranges::any_of(task.buffer_layout().segments(), fits)) continue;
    throw ConfigError(no_tensor("weights-except", pattern, task.layout()));
  }
  const WeightsFile file(options.weights);
  try {
    const std::vector<std::string> unused = read_weights(file, options.weights, task, except);
    return unused.empty() ? "" : fmt::format("{} has {}", options.weights, unused_text(unused));
  } catch (const FileError& error) {
    throw ConfigError(
        fmt::format("{}; {} can name tensors that begin without it", error.what(), named("weights-except")));
  }
}

void ExportOptions::visit(OptionVisitor& v) {
  v.option("model-dir", model_dir, "run folder with model_step_N checkpoints");
  v.option("step", step, "the checkpoint of this step; auto: the newest", {0, 1e15});
  v.option("out", out, "file to write");
  v.option("type", type, "how it holds the weights", {"f32", "f16", "bf16"});
}

std::uint64_t export_weights(const ExportOptions& options) {
  std::error_code missing;
  if (!std::filesystem::is_directory(options.model_dir, missing)) {
    throw ConfigError(named("model-dir", options.model_dir) + ": there is no such folder");
  }
  const auto steps = checkpoint::find(options.model_dir);
  const auto wanted = options.step ? static_cast<std::uint64_t>(*options.step) : steps.empty() ? 0 : steps.back();
  if (std::ranges::count(steps, wanted) == 0) {
    throw ConfigError(
        fmt::format("{}: {}; it has {}", named("model-dir", options.model_dir),
                    options.step ? fmt::format("no checkpoint of step {}", wanted) : "holds no checkpoint",
                    steps.empty() ? "none" : fmt::format("those of {}", fmt::join(steps, ", "))));
  }
  if (path_exists(std::filesystem::absolute(options.out).parent_path() / "manifest")) {
    throw ConfigError(named("out", options.out) +
                      ": is in a checkpoint, whose files belong together; choose another place");
  }
  ThreadPool pool(1);
  const std::filesystem::path folder = checkpoint::folder(options.model_dir, wanted);
  const SafetensorsReader reader(whole_model_file(folder, Manifest::of_text(read_manifest_text(folder)), pool));
  const Layout layout = reader.layout();
  std::vector<float> values(layout.size());
  reader.read(layout, values);
  const std::array<TensorPart, 1> parts{{{layout, values}}};
  const FloatType type = options.type == "f16"    ? FloatType::f16
                         : options.type == "bf16" ? FloatType::bf16
                                                  : FloatType::f32;
  write_safetensors(options.out, parts, {{"format", "pt"}}, pool, type);
  return wanted;
}

void ImportOptions::visit(OptionVisitor& v) {
  v.option("task", task,
           "what the model is for, a task of `sotto train`; auto: the first that has this model and data");
  v.option("model", model, "the model whose weights the file has, with its options: resnet18, gpt-mini(context=128)");
  v.option("train-dir", train_dir, "run folder to make");
  data.visit(v);
}

Imported import_weights(const ImportOptions& options) {
  TrainOptions run;
  run.task = options.task;
  run.model = options.model;
  run.data = options.data;
  const Choices choices = read_choices(run);
  const std::filesystem::path train_dir = options.train_dir;
  std::error_code missing;
  if (std::filesystem::exists(train_dir / "config.toml", missing) || !checkpoint::find(train_dir).empty()) {
    throw ConfigError(named("train-dir", options.train_dir) + ": already holds a run; choose another folder");
  }
  TaskSetup setup{.model = choices.model, .data = choices.options.data};
  setup.batch = 0;
  const std::unique_ptr<Task> task = choices.task->make(setup);
  Imported imported{task->layout().numel(), read_weights(WeightsFile(options.file), options.file, *task)};

  const std::filesystem::path folder = checkpoint::folder(train_dir, 0);
  make_folder(folder);
  Manifest manifest{
      .run = "imported", .step = 0, .kept = Kept::always, .identity = {{"model", choices.options.model}}, .parts = {}};
  ThreadPool pool(1);
  write_model_file(folder, manifest, {task->layout(), task->parameters()}, {task->buffer_layout(), task->buffers()},
                   pool);
  write_manifest(folder, manifest);
  write_file_atomic(train_dir / "config.toml", to_toml(choices.options));
  return imported;
}

std::string unused_text(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  const auto first = std::span(names).first(std::min(most, names.size()));
  return fmt::format("{} {} that the model has not: {}{}", names.size(), names.size() == 1 ? "tensor" : "tensors",
                     fmt::join(first, ", "),
                     names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

}  // namespace sotto
