#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace sotto {

// A file in the net, and how to know that it is right.
struct Download {
  std::string url;  // http or https
  std::string md5;  // of the whole file, in lower-case hexadecimal
  std::uint64_t bytes;
};

// Called now and then, at least once a second: the file, its bytes so far and in all. Returning false cancels. Must not
// throw.
using Progress = std::function<bool(const std::filesystem::path& file, std::uint64_t done, std::uint64_t total)>;

enum class Fetched : std::uint8_t { already_there, done, cancelled };

// Brings the file to `path`. What was received is kept in `path`.part, from where a later call goes on, after a cut
// connection, a cancel or a kill; a server that knows no ranges is asked for the whole file again. `path` itself
// appears (fsync, rename) only once length and md5 are right; when it is already there and right, nothing is asked.
// FileError, which names the file: refused or cut connection, silence of a minute, HTTP error, wrong length or md5 (the
// part is then removed), disk.
Fetched download(const Download& source, const std::filesystem::path& path, const Progress& progress);

// Downloads all files of a data set into a folder, which is made when it is not there. `base_url` stands in for the
// usual mirror unless it is empty. ConfigError when the data set is not one that can be downloaded.
Fetched get_dataset(std::string_view name, const std::filesystem::path& folder, std::string_view base_url,
                    const Progress& progress);

}  // namespace sotto
