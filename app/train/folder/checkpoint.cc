#include "app/train/folder/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/train/folder/folder_lock.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/hash.h"
#include "sotto/core/state_file.h"
#include "sotto/core/text.h"

namespace sotto::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view prefix = "model_step_";
constexpr std::string_view partial_suffix = ".tmp";

// The ends of the names that begin with `model_step_`.
std::vector<std::string> endings_in(const fs::path& train_dir) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(train_dir, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) found.push_back(name.substr(prefix.size()));
  }
  return found;
}

bool is_partial(const std::string& ending) { return ending.ends_with(partial_suffix); }

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
  for (const std::string& ending : endings_in(train_dir)) {
    if (const auto step = parsed<std::uint64_t>(ending)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

void remove_partial(const fs::path& train_dir) {
  std::error_code ignored;
  for (const std::string& ending : endings_in(train_dir)) {
    if (is_partial(ending)) fs::remove_all(train_dir / (std::string(prefix) + ending), ignored);
  }
}

void remove_abandoned(const fs::path& train_dir) {
  if (std::ranges::none_of(endings_in(train_dir), is_partial)) return;
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

namespace sotto {
namespace {

constexpr std::string_view part_prefix = "part ";

std::string take(checkpoint::Metadata& metadata, const std::string& key) {
  const auto found = metadata.extract(key);
  return found.empty() ? "" : found.mapped();
}

std::filesystem::path file_of(const std::filesystem::path& checkpoint) { return checkpoint / "manifest"; }

std::string text_of_part(const std::filesystem::path& path) {
  if (path.filename() != checkpoint::model_file) return StateReader(path).text();
  const auto& metadata = SafetensorsReader(path).metadata();
  const auto found = metadata.find(std::string(checkpoint::text_key));
  if (found == metadata.end()) throw FileError("it is of no run");
  return found->second;
}

}  // namespace

std::string Manifest::text() const {
  checkpoint::Metadata all = identity;
  all["run"] = run;
  all["step"] = std::to_string(step);
  all["course"] = course;
  all["rolling"] = kept == Kept::always ? "no" : kept == Kept::by_clock ? "yes" : "best";
  for (const auto& [name, hash] : parts) all[std::string(part_prefix) + name] = hash;
  return checkpoint::to_text(all);
}

Manifest Manifest::of_text(const std::string& text) {
  Manifest manifest;
  manifest.identity = checkpoint::from_text(text);
  manifest.run = take(manifest.identity, "run");
  manifest.step = std::strtoull(take(manifest.identity, "step").c_str(), nullptr, 10);
  manifest.course = take(manifest.identity, "course");
  const std::string rolling = take(manifest.identity, "rolling");
  manifest.kept = rolling == "yes" ? Kept::by_clock : rolling == "best" ? Kept::as_best : Kept::always;
  for (auto entry = manifest.identity.begin(); entry != manifest.identity.end();) {
    if (!entry->first.starts_with(part_prefix)) {
      ++entry;
      continue;
    }
    manifest.parts[entry->first.substr(part_prefix.size())] = entry->second;
    entry = manifest.identity.erase(entry);
  }
  return manifest;
}

void write_manifest(const std::filesystem::path& checkpoint, const Manifest& manifest) {
  StateWriter(file_of(checkpoint), manifest.text()).finish();
}

std::string read_manifest_text(const std::filesystem::path& checkpoint) {
  if (!path_exists(file_of(checkpoint))) {
    throw FileError(fmt::format("{}: missing: an older version of sotto wrote this checkpoint, or it was taken away",
                                file_of(checkpoint).string()));
  }
  return StateReader(file_of(checkpoint)).text();
}

std::string part_text(const Manifest& manifest, const std::string& name) {
  checkpoint::Metadata all = manifest.identity;
  all["run"] = manifest.run;
  all["step"] = std::to_string(manifest.step);
  all["part"] = name;
  return checkpoint::to_text(all);
}

std::string problem_of_part(const std::filesystem::path& checkpoint, const std::string& name, const Manifest& manifest,
                            ThreadPool& pool) {
  const auto path = checkpoint / name;
  const auto problem = [&](std::string_view what) { return fmt::format("{}: {}", path.string(), what); };
  const auto wanted = manifest.parts.find(name);
  if (wanted == manifest.parts.end()) return problem("the manifest has no such part");
  try {
    if (!path_exists(path)) return problem("missing");
    if (block_hash_of_file(path, pool) == wanted->second) return "";
    checkpoint::Metadata found = checkpoint::from_text(text_of_part(path));  // its error names the damage
    if (found["part"] == name && found["run"] == manifest.run && found["step"] == std::to_string(manifest.step)) {
      return problem("is damaged: it is not as it was written");
    }
    return problem(fmt::format("is not what belongs there, but {} of step {} of {} run", found["part"], found["step"],
                               found["run"] == manifest.run ? "the same" : "another"));
  } catch (const FileError& error) {
    const std::string_view what = error.what();
    return what.find(path.string()) == what.npos ? problem(what) : std::string(what);
  }
}

std::filesystem::path whole_model_file(const std::filesystem::path& checkpoint, const Manifest& manifest,
                                       ThreadPool& pool) {
  const std::string name(checkpoint::model_file);
  const std::string problem = problem_of_part(checkpoint, name, manifest, pool);
  if (!problem.empty()) throw FileError(problem);
  return checkpoint / name;
}

void write_model_file(const std::filesystem::path& checkpoint, Manifest& manifest, TensorPart parameters,
                      TensorPart buffers, ThreadPool& pool) {
  const std::string name(checkpoint::model_file);
  const std::array<TensorPart, 2> parts{{parameters, buffers}};
  const std::map<std::string, std::string> metadata{{"format", "pt"},  // what transformers looks for
                                                    {std::string(checkpoint::text_key), part_text(manifest, name)}};
  manifest.parts[name] = write_safetensors(checkpoint / name, parts, metadata, pool);
}

}  // namespace sotto
