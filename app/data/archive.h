#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace sotto {

// Whether a file of an archive is wanted, by the last part of its name.
using Wanted = std::function<bool(std::string_view name)>;

// Writes the wanted files of a tar archive, packed or not, into a folder, under the last part of their names. FileError
// if the archive is damaged or truncated.
void unpack_tar(const std::filesystem::path& archive, const Wanted& wanted, const std::filesystem::path& folder);

// The same for a zip archive of at most 65,535 files and 4 GiB.
void unpack_zip(const std::filesystem::path& archive, const Wanted& wanted, const std::filesystem::path& folder);

}  // namespace sotto
