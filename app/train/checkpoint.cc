#include "app/train/checkpoint.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "sotto/core/text.h"
#include "app/train/folder_lock.h"

namespace sotto::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view prefix = "model_step_";
constexpr std::string_view partial_suffix = ".tmp";

std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return parsed<std::uint64_t>(name.substr(prefix.size()));
}

std::vector<fs::path> partial_ones(const fs::path& train_dir) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(train_dir, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(partial_suffix)) found.push_back(entry.path());
  }
  return found;
}

}  // namespace

std::string rank_file(int rank) { return "rank_" + std::to_string(rank); }

fs::path folder(const fs::path& train_dir, std::uint64_t step) {
  return train_dir / (std::string(prefix) + std::to_string(step));
}

fs::path partial_folder(const fs::path& train_dir, std::uint64_t step) {
  return folder(train_dir, step) += partial_suffix;
}

std::vector<std::uint64_t> find(const fs::path& train_dir) {
  std::vector<std::uint64_t> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(train_dir, ignored)) {
    if (const auto step = step_of(entry.path().filename().string())) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

void remove_partial(const fs::path& train_dir) {
  std::error_code ignored;
  for (const fs::path& path : partial_ones(train_dir)) fs::remove_all(path, ignored);
}

void remove_abandoned(const fs::path& train_dir) {
  if (partial_ones(train_dir).empty()) return;
  const FolderLock lock(train_dir);
  if (lock.held()) remove_partial(train_dir);
}

std::string to_text(const Metadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) text.append(key).append(" = ").append(value).append("\n");
  return text;
}

Metadata from_text(const std::string& text) {
  Metadata metadata;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (const std::size_t equals = line.find(" = "); equals != std::string::npos) {
      metadata[line.substr(0, equals)] = line.substr(equals + 3);
    }
    at = end + 1;
  }
  return metadata;
}

}  // namespace sotto::checkpoint
