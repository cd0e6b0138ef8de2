#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

namespace sotto {

// The content of a file, at most 256 MiB; unpacked if its first bytes are those of gzip or xz. FileError, which names
// the file, if it cannot be read, or is damaged or truncated.
std::vector<std::byte> read_unpacked(const std::filesystem::path& path);

// Writes those files of a tar archive, packed or not, whose names have this ending into a folder, under the last part
// of their names. FileError if the archive is damaged or truncated.
void unpack_tar(const std::filesystem::path& archive, std::string_view ending, const std::filesystem::path& folder);

// `path` itself, or the same with .gz or .xz at its end, whichever exists first; empty if none does.
std::filesystem::path find_packed(const std::filesystem::path& path);

}  // namespace sotto
