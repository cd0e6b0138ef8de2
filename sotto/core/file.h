#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// Whole-file reading and writing. All throw FileError, which names the file and the reason.
std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);

// Whether there is something of this name. FileError when that cannot be told: a name too long, a folder that is
// closed.
bool path_exists(const std::filesystem::path& path);

// Whole or not at all (atomic_file.h).
void write_file_atomic(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomic(const std::filesystem::path& path, std::string_view text);

// In the names of files that are being written.
inline constexpr std::string_view temporary_mark = ".sotto-tmp-";
// Removes what killed processes left of such files in this folder. REQUIRES: nobody is writing there.
void remove_temporaries(const std::filesystem::path& folder);

void fsync_path(const std::filesystem::path& path);   // a file or a folder
void make_folder(const std::filesystem::path& path);  // with its parents; fine when it exists and can be written to

// Hexadecimal digests (OpenSSL), for identities of files and parameters.
std::string md5_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::span<const std::byte> bytes);

// The content of a gzip file (libdeflate), of at most 256 MiB. One that is damaged or truncated, or has anything but
// further members behind it, is a FileError that names `path`.
std::vector<std::byte> gunzip(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace sotto
