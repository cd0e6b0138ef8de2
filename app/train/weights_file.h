#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/train/safetensors.h"

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

}  // namespace sotto
