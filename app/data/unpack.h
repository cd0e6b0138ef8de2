#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace sotto {

// The content of a file, at most most_unpacked bytes; unpacked if it begins as gzip or xz files do. FileError, which
// names the file, if it cannot be read, or is damaged or truncated. FileError also if only its name, and not its first
// bytes, says that it is packed: a run would train on the damaged bytes as text.
std::vector<std::byte> read_unpacked(const std::filesystem::path& path);

// `path` itself, or the same with .gz or .xz at its end, whichever exists first; empty if none does.
std::filesystem::path find_packed(const std::filesystem::path& path);

// The same, but FileError if there is none.
std::filesystem::path require_packed(const std::filesystem::path& path);

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Whether a file of an archive is wanted, by the last part of its name.
using Wanted = std::function<bool(std::string_view name)>;

// Writes the wanted files of a tar archive, packed or not, into a folder, under the last part of their names. FileError
// if the archive is damaged or truncated.
void unpack_tar(const std::filesystem::path& archive, const Wanted& wanted, const std::filesystem::path& folder);

// The same for a zip archive of at most 65,535 files and 4 GiB.
void unpack_zip(const std::filesystem::path& archive, const Wanted& wanted, const std::filesystem::path& folder);

}  // namespace sotto
