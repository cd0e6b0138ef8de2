#include "app/train/captured_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <tuple>

#include "sotto/codec/npy_file.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/thread_pool.h"
#include "app/train/safetensors.h"

namespace sotto {
namespace {

constexpr std::array<std::string_view, 3> format_names{"sotto", "npy", "safetensors"};  // as CaptureFormat has them
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
  switch (format) {
    case CaptureFormat::sotto: return write_gradient_file(path(), step, layout, values);
    case CaptureFormat::npy: return write_npy(path(), layout, values);
    case CaptureFormat::safetensors: break;
  }
  ThreadPool alone(1);
  const TensorPart part{layout, values};
  write_safetensors(path(), {&part, 1}, {{"step", std::to_string(step)}}, alone);
}

GradientFile CapturedFile::read() const {
  GradientFile file;
  switch (format) {
    case CaptureFormat::sotto: file = read_gradient_file(path()); break;
    case CaptureFormat::safetensors: file = read_safetensors_vector(path()); break;
    case CaptureFormat::npy:
      try {
        const auto bytes = read_file(path());
        if (!is_npy(bytes)) throw WireError("it is no .npy");
        file = read_npy(bytes);
      } catch (const WireError& error) {
        throw FileError(fmt::format("{}: {}", path().string(), error.what()));
      }
  }
  file.step = step;
  return file;
}

bool is_safetensors(std::span<const std::byte> file) {
  constexpr std::size_t length = sizeof(std::uint64_t);  // of the length of the header, which is JSON
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
  if (file.path() != path) return std::nullopt;  // "gradient-7.sotto" of somebody else
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
  constexpr std::uint64_t head = 1024, entry = 256;  // of a file, and of each tensor in its header
  std::uint64_t bytes =
      head + layout.size() * sizeof(float) + layout.size() * sizeof(float) / 128;  // Zstandard at worst
  for (const Segment& segment : layout.segments()) bytes += entry + 2 * segment.name.size();
  return bytes;
}

}  // namespace sotto
