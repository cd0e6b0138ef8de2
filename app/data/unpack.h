#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace sotto {

// The content of a file, at most most_unpacked bytes; unpacked if its first bytes are those of gzip or xz. FileError,
// which names the file, if it cannot be read, or is damaged or truncated; also if its name ends as those of packed
// files do and its first bytes are others, since a damaged text would be trained on as it is.
std::vector<std::byte> read_unpacked(const std::filesystem::path& path);

// `path` itself, or the same with .gz or .xz at its end, whichever exists first; empty if none does.
std::filesystem::path find_packed(const std::filesystem::path& path);

}  // namespace sotto
