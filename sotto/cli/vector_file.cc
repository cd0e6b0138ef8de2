#include "sotto/cli/vector_file.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "sotto/cli/npy_file.h"
#include "sotto/cli/torch_file.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

// What torch.save wrote before it wrote zip archives: a pickle of a number that stands for that.
constexpr std::string_view old_torch("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46", 8);

GradientFile read_raw(std::span<const std::byte> file) {
  if (file.size() >= old_torch.size() && std::memcmp(file.data(), old_torch.data(), old_torch.size()) == 0) {
    throw WireError("a file of torch.save as it was before version 1.6; load it in Python and save it again");
  }
  if (file.size() % sizeof(float) != 0) {
    throw WireError(fmt::format("{} bytes are not whole float32 values", file.size()));
  }
  std::vector<float> values(file.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), file.data(), file.size());
  const auto count = static_cast<std::int64_t>(values.size());
  return {0, Layout({{"values", 0, {count}}}, values.size()), std::move(values)};
}

}  // namespace

GradientFile read_vector(const std::filesystem::path& path) {
  const std::vector<std::byte> file = read_file(path);
  if (is_gradient_file(file)) return read_gradient_file(path);
  try {
    GradientFile vector = is_npy(file) ? read_npy(file) : is_torch_file(file) ? read_torch_file(file) : read_raw(file);
    if (vector.values.empty()) throw WireError("holds no values");
    return vector;
  } catch (const WireError& error) {
    throw FileError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace sotto
