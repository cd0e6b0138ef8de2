#include "app/train/weights_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/file_reader.h"

namespace sotto {
namespace {

constexpr std::uint64_t longest_index = 100'000'000;  // as long as a header may be

// The text of a file that begins as JSON does. In a safetensors file the first eight bytes are the length of a header,
// and as no header has 2^56 bytes, the last of them is zero.
std::optional<std::string> json_text(const FileReader& file) {
  std::string text(8, '\0');
  if (file.size() < text.size() || file.size() > longest_index) return std::nullopt;
  file.read(0, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{') || text.back() == '\0') return std::nullopt;
  text.resize(file.size());
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
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

}  // namespace sotto
