#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace sotto {

// The content of a file, at most most_unpacked bytes; unpacked if it begins as gzip or xz files do. FileError, which
// names the file, if it cannot be read, or is damaged or truncated; also if its name says that it is packed and its
// first bytes do not, since a damaged text would otherwise be trained on.
std::vector<std::byte> read_unpacked(const std::filesystem::path& path);

// `path` itself, or the same with .gz or .xz at its end, whichever exists first; empty if none does.
std::filesystem::path find_packed(const std::filesystem::path& path);

}  // namespace sotto
