#include "app/train/record/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <system_error>
#include <tuple>

#include "app/train/folder/safetensors.h"
#include "app/train/options/options.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"
#include "sotto/core/thread_pool.h"

namespace sotto {
namespace {

constexpr std::array<std::string_view, 2> format_names{"safetensors", "npy"};  // in the order of CaptureFormat
constexpr std::string_view gradient_name = "gradient", memory_name = "memory";

// Takes a whole number without sign off the beginning of a text.
template <class T>
std::optional<T> take_number(std::string_view& text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.starts_with('-')) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

}  // namespace

std::optional<CaptureFormat> capture_format(std::string_view name) {
  const auto* const found = std::ranges::find(format_names, name);
  if (found == format_names.end()) return std::nullopt;
  return static_cast<CaptureFormat>(found - format_names.begin());
}

std::filesystem::path CapturedFile::path() const {
  return folder / fmt::format("{}-{:06d}{}.{}", memory ? memory_name : gradient_name, step,
                              rank ? fmt::format("-r{}", *rank) : "", format_names[static_cast<std::size_t>(format)]);
}

void CapturedFile::write(const Layout& layout, std::span<const float> values) const {
  if (format == CaptureFormat::npy) return write_npy(path(), layout, values);
  ThreadPool alone(1);
  const TensorPart part{layout, values};
  write_safetensors(path(), {&part, 1}, {{"step", std::to_string(step)}}, alone);
}

GradientFile CapturedFile::read() const {
  if (format == CaptureFormat::safetensors) return read_safetensors_vector(path());
  try {
    const auto bytes = read_file(path());
    if (!is_npy(bytes)) throw WireError("it is no .npy");
    return read_npy(bytes);
  } catch (const WireError& error) {
    throw FileError(fmt::format("{}: {}", path().string(), error.what()));
  }
}

bool is_safetensors(std::span<const std::byte> file) {
  constexpr std::size_t length = sizeof(std::uint64_t);  // the file begins with a length, then a header in JSON
  return file.size() > length + 1 && static_cast<char>(file[length]) == '{' &&
         static_cast<char>(file[length + 1]) == '"';
}

GradientFile read_safetensors_vector(const std::filesystem::path& path) {
  const SafetensorsReader reader(path);
  GradientFile file;
  file.layout = reader.layout();
  file.values.resize(file.layout.size());
  reader.read(file.layout, file.values);
  return file;
}

std::optional<CapturedFile> captured_file(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::string_view rest = name;
  CapturedFile file{.folder = path.parent_path()};
  file.memory = take(rest, memory_name);
  if (!file.memory && !take(rest, gradient_name)) return std::nullopt;
  if (!take(rest, "-")) return std::nullopt;
  const auto step = take_number<std::uint64_t>(rest);
  if (!step) return std::nullopt;
  file.step = *step;
  if (take(rest, "-r")) {
    file.rank = take_number<int>(rest);
    if (!file.rank) return std::nullopt;
  }
  const auto format = take(rest, ".") ? capture_format(rest) : std::nullopt;
  if (!format) return std::nullopt;
  file.format = *format;
  if (file.path() != path) return std::nullopt;  // "gradient-7.npy" of somebody else
  return file;
}

std::vector<CapturedFile> captured_files(const std::filesystem::path& folder) {
  std::vector<CapturedFile> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (auto file = captured_file(entry->path())) files.push_back(std::move(*file));
  }
  if (error) throw FileError(fmt::format("{}: {}", folder.string(), error.message()));
  std::ranges::sort(files, {}, [](const CapturedFile& f) { return std::tuple(f.step, f.rank, f.memory, f.format); });
  return files;
}

std::uint64_t most_captured_bytes(const Layout& layout) {
  constexpr std::uint64_t head = 1024, entry = 256;  // bytes at most: of an empty header, and of a tensor in it
  std::uint64_t bytes = head + layout.size() * sizeof(float);
  for (const Segment& segment : layout.segments()) bytes += entry + 2 * segment.name.size();
  return bytes;
}

CapturePlan read_capture(std::string_view option, std::string_view text) {
  constexpr std::string_view form =
      "it is written every=N,dir=DIR, and may continue with ranks=all, memory=true, format=npy, "
      "limit=16GB";
  CapturePlan plan;
  const std::string said = named(option, text);
  const auto fail = [&](std::string_view why) { throw ConfigError(fmt::format("{}: {}", said, why)); };
  std::set<std::string_view> keys;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::string_view key = item.substr(0, item.find('='));
    if (key.size() == item.size()) fail(form);
    const std::string_view value = item.substr(key.size() + 1);
    if (!keys.insert(key).second) fail(fmt::format("{} is given twice; say it once", key));
    if (key == "every") {
      plan.every = static_cast<std::uint64_t>(parse_int(said + ": every", value, Bounds{1, 1e12}));
    } else if (key == "dir") {
      plan.folder = value;
    } else if (key == "ranks") {
      if (value != "all" && value != "one") fail("ranks must be one or all");
      plan.all_ranks = value == "all";
    } else if (key == "memory") {
      plan.memory = parse_bool(said + ": memory", value);
    } else if (key == "format") {
      const auto format = capture_format(value);
      if (!format) fail("format must be safetensors or npy");
      plan.format = *format;
    } else if (key == "limit") {
      const auto bytes = parse_bytes(said + ": limit", value);
      if (!bytes || *bytes < 1 || *bytes > 1e18) fail("limit must be a size, as 16GB");
      plan.limit = static_cast<std::uint64_t>(*bytes);
    } else {
      fail(fmt::format("`{}` is unknown; {}", key, form));
    }
  }
  if (plan.every == 0) fail("every=N is missing: how many steps lie between two gradients");
  if (plan.folder.empty()) fail("dir=DIR is missing: where to write the gradients");
  return plan;
}

Capture::Capture(CapturePlan plan, int rank, int ranks)
    : plan_(std::move(plan)), share_(plan_.limit / static_cast<std::uint64_t>(plan_.all_ranks ? ranks : 1)) {
  if (plan_.all_ranks) rank_ = rank;
}

void Capture::write(std::uint64_t step, const Layout& layout, std::span<const float> gradient,
                    std::span<const float> memory) {
  if (full_) return;
  make_folder(plan_.folder);
  const std::uint64_t next = most_captured_bytes(layout) * (memory.empty() ? 1 : 2);
  if (used(step) + next > share_) {
    full_ = true;
    remark_ = fmt::format(
        "{}: no more gradients from step {} on: {} bytes might not be enough for another; limit says how many",
        plan_.folder.string(), step, plan_.limit);
    return;
  }
  CapturedFile file{plan_.folder, false, step, rank_, plan_.format};
  file.write(layout, gradient);
  if (memory.empty()) return;
  file.memory = true;
  file.write(layout, memory);
}

// The bytes of the files that this rank captured at other steps, also before a resume.
std::uint64_t Capture::used(std::uint64_t step) const {
  std::uint64_t bytes = 0;
  for (const CapturedFile& file : captured_files(plan_.folder)) {
    if (file.rank != rank_ || file.step == step) continue;
    std::error_code gone;  // somebody may remove files at any time
    const auto size = std::filesystem::file_size(file.path(), gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

}  // namespace sotto
