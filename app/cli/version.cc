#include "sotto/core/version.h"

#include <torch/version.h>

#include "app/cli/commands.h"

namespace sotto {
namespace {

#ifdef __clang__
constexpr std::string_view compiler = "clang " __clang_version__;
#else
constexpr std::string_view compiler = "g++ " __VERSION__;
#endif
#ifdef NDEBUG
constexpr std::string_view kind = "release";
#else
constexpr std::string_view kind = "debug";
#endif
constexpr std::string_view commit = SOTTO_COMMIT;  // of the source when CMake ran; empty if unknown

}  // namespace

// Does not use fmt, because torch's include folder, which this file sees, has its own copy.
std::string version_text() {
  std::string text = "sotto " + std::string(version);
  if (!commit.empty()) text += " (" + std::string(commit) + ")";
  return text + ", torch " + TORCH_VERSION + ", " + std::string(compiler) + ", " + std::string(kind);
}

}  // namespace sotto
