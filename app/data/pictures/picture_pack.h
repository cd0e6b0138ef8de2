#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/thread_pool.h"

namespace sotto {

// A pack is one file with the pictures of a folder, in both splits. A large set opens at once, because its pictures
// were tested when the pack was made. Little-endian:
//   "sotto pictures\1\n"; the bytes of the pictures as they were, one after the other; the index;
//   u64 where the index begins, u64 its length, u32 its CRC-32, "packed\1\n"
// The index: u32 number of classes, their names; for train, then for tests: the name of the folder, u64 number of
// pictures, for each {u64 begin, u32 length, u32 CRC-32, u32 label, name}, u32 number of broken ones, for each a text.
// A name or text is u32 length and bytes.

struct PackReport {
  std::array<std::size_t, 2> pictures{};  // of each split
  std::uint64_t bytes = 0;
  std::vector<std::string> broken;
};
// Called with the numbers of finished pictures and of all. Returning false cancels.
using PackProgress = std::function<bool(std::size_t done, std::size_t all)>;

// Packs the files that list_folder() lists; the pack appears as a whole or not at all. Broken pictures are left out and
// named in the report; with `strict` they are a FileError. Returns no value if it was cancelled.
std::optional<PackReport> write_picture_pack(const std::filesystem::path& folder, const std::filesystem::path& file,
                                             bool strict, ThreadPool& pool, const PackProgress& progress);

// Reads all pictures of a pack, until it is cancelled. FileError, which names the first one that is damaged.
void check_picture_pack(const std::filesystem::path& file, const PackProgress& progress);

}  // namespace sotto
