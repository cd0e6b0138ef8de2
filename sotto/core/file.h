#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// Whole-file reading and writing. All functions throw FileError, which names the file and the reason.
std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);

// Whether a file or folder of this name exists. FileError when this cannot be found out: the name is too long, or a
// parent folder is not accessible.
bool path_exists(const std::filesystem::path& path);

// Whether `path` now names another file than this open one. False if it names no file, or if that cannot be found out.
bool is_replaced(int file, const std::filesystem::path& path);

// Writes the file whole or not at all (AtomicFile, open_file.h).
void write_file_atomic(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomic(const std::filesystem::path& path, std::string_view text);

// Appends to a file, and creates it if it does not exist.
void append_text(const std::filesystem::path& path, std::string_view text);

// Part of the names of temporary files (AtomicFile, open_file.h).
inline constexpr std::string_view temporary_mark = ".sotto-tmp-";
// Removes the temporary files that killed processes left in this folder. REQUIRES that nobody writes there now.
void remove_temporaries(const std::filesystem::path& folder);

void fsync_path(const std::filesystem::path& path);   // a file or a folder
void make_folder(const std::filesystem::path& path);  // and its parents; no error if it exists and is writable
// FileError if make_folder() could not make this folder, or if nothing could be written into it. Makes nothing.
void require_possible_folder(const std::filesystem::path& path);

// Hexadecimal digests (OpenSSL), to identify files and parameters.
std::string md5_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::span<const std::byte> bytes);

// The most bytes that a file may unpack to: without a limit, a small file could fill the memory. The largest file of
// EMNIST unpacks to 547 million.
inline constexpr std::size_t most_unpacked = std::size_t{1} << 30;

// Unpacks `bytes`, the content of a gzip file of one or more members, to at most most_unpacked (libdeflate). FileError,
// which names `path`, when they are damaged or truncated, or followed by anything else.
std::vector<std::byte> gunzip(const std::filesystem::path& path, std::span<const std::byte> bytes);

// Unpacks one zlib stream likewise.
std::vector<std::byte> inflate(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace sotto
