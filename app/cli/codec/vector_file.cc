#include "app/cli/codec/vector_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "app/train/record/capture.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

// The beginning of torch.save's format before zip archives: a pickle of its magic number.
constexpr std::string_view old_torch("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46", 8);

// Any bytes could be floats, so only the name shows that they are.
constexpr std::array<std::string_view, 3> raw_extensions{".f32", ".raw", ".bin"};

GradientFile read_raw(const std::filesystem::path& path, std::span<const std::byte> file) {
  if (file.size() >= old_torch.size() && std::memcmp(file.data(), old_torch.data(), old_torch.size()) == 0) {
    throw WireError("a file of torch.save as it was before version 1.6; load it in Python and save it again");
  }
  if (std::ranges::find(raw_extensions, path.extension().string()) == raw_extensions.end()) {
    throw WireError(
        fmt::format("no safetensors, .npy or file of torch.save, which are known by how they begin; a file of "
                    "raw float32 is known by its name, which ends in one of {}",
                    fmt::join(raw_extensions, ", ")));
  }
  if (file.size() % sizeof(float) != 0) {
    throw WireError(fmt::format("{} bytes are not whole float32 values", file.size()));
  }
  std::vector<float> values(file.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), file.data(), file.size());
  const auto count = static_cast<std::int64_t>(values.size());
  return {Layout({{"values", 0, {count}}}, values.size()), std::move(values)};
}

}  // namespace

GradientFile read_vector(const std::filesystem::path& path) {
  const FileReader file(path);
  std::vector<std::byte> begin(std::min<std::uint64_t>(file.size(), 1 << 12));
  file.read(0, begin);
  if (is_safetensors(begin)) return read_safetensors_vector(path);
  try {
    if (is_npz(begin)) throw WireError("a .npz; save one array with numpy.save");
    GradientFile vector = is_npy(begin)          ? read_npy(read_file(path))
                          : is_torch_file(begin) ? read_torch_file(file)
                                                 : read_raw(path, read_file(path));
    if (vector.values.empty()) throw WireError("holds no values");
    return vector;
  } catch (const WireError& error) {
    throw FileError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace sotto
