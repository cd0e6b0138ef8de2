#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace sotto {

// A file on the internet, with its expected md5 and length.
struct Download {
  std::string url;  // http or https
  std::string md5;  // of the whole file, in lower-case hexadecimal
  std::uint64_t bytes;
};

// Called at least once a second with the file, the bytes received so far and the total. Returning false cancels the
// download. Must not throw.
using Progress = std::function<bool(const std::filesystem::path& file, std::uint64_t done, std::uint64_t total)>;

enum class Fetched : std::uint8_t { already_there, done, cancelled };

// Downloads a file to `path`; does nothing when a file with the right length and md5 is already there. Received bytes
// go to `path`.part, where a later call resumes after a cut connection, a cancel or a kill; a server without range
// requests sends the whole file again. The part is renamed to `path` (after fsync) once length and md5 are right.
// FileError, which names the file, for a refused or cut connection, a minute of silence, an HTTP error, a disk error,
// and a wrong length or md5 (then the part is removed).
Fetched download(const Download& source, const std::filesystem::path& path, const Progress& progress);

// Where get_dataset() loads a data set from.
struct DownloadSource {
  std::string_view name, address, licence;
};
// No value if the set cannot be downloaded.
const DownloadSource* find_download(std::string_view name);

// Downloads all files of a data set into a folder, which is created if needed, and unpacks archives there. A non-empty
// `base_url` replaces the usual mirror. ConfigError when this data set cannot be downloaded.
Fetched get_dataset(std::string_view name, const std::filesystem::path& folder, std::string_view base_url,
                    const Progress& progress);

}  // namespace sotto
