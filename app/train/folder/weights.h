#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/options.h"
#include "app/task/task.h"
#include "app/train/folder/safetensors.h"
#include "app/train/options/options.h"
#include "sotto/core/options.h"

namespace sotto {

// Weights as others publish them: a safetensors file, or the index of several such files beside it, as Hugging Face
// writes large models (model.safetensors.index.json).
class WeightsFile {
 public:
  // FileError, which names the file, if it is neither, or if a file that the index names is missing or damaged.
  explicit WeightsFile(const std::filesystem::path& path);

  bool has(std::string_view name) const { return tensors_.contains(name); }
  std::vector<std::string> names() const;
  // As SafetensorsReader::read().
  void read(std::string_view name, std::span<const std::int64_t> shape, std::span<float> values) const;

 private:
  void read_index(const std::string& text);
  [[noreturn]] void fail(const std::string& why) const;

  std::filesystem::path path_;
  std::map<std::string, SafetensorsReader, std::less<>> files_;  // by their names
  std::map<std::string, const SafetensorsReader*, std::less<>> tensors_;
};

// Gives the task the weights that a run begins with, unless it resumes. Returns a warning, or "". ConfigError for a
// pattern that matches no tensor, and for a tensor that the file lacks or has in another shape; FileError if it is no
// safetensors file.
std::string start_from_weights(const TrainOptions& options, Task& task);

struct ExportOptions {
  std::string model_dir;
  std::optional<std::int64_t> step;
  std::string out;
  std::string type = "f32";
  void visit(OptionVisitor& v);
};

// Writes the weights of a run's checkpoint to a safetensors file, and returns the step of the checkpoint. ConfigError
// for a folder without such a checkpoint; FileError; NumericError for weights that are too large for the type.
std::uint64_t export_weights(const ExportOptions& options);

struct ImportOptions {
  std::string file;
  std::string task = "auto", model, train_dir;
  DataOptions data;
  void visit(OptionVisitor& v);
};

struct Imported {
  std::size_t parameters = 0;
  std::vector<std::string> unused;  // names of tensors in the file that the model does not have
};

// Makes a run folder whose only checkpoint, of step 0, holds the weights of a safetensors file. It can be evaluated and
// exported. It cannot be resumed, because it only has weights. ConfigError if the folder holds a run already.
Imported import_weights(const ImportOptions& options);

// Names of tensors as text for a message: "2 tensors that the model has not: a, b". REQUIRES a name.
std::string unused_text(const std::vector<std::string>& names);

}  // namespace sotto
