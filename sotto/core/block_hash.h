#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/thread_pool.h"

namespace sotto {

// The SHA-256 of the SHA-256s of all blocks of 1 MiB, the last of which may be shorter: an identity of long contents
// that several threads can compute together.
class BlockHash {
 public:
  static constexpr std::size_t block = std::size_t{1} << 20;

  explicit BlockHash(ThreadPool& pool) : pool_(pool) {}

  // Bytes behind those that were added before; how they are cut makes no difference.
  void add(std::span<const std::byte> bytes);
  // Of all that was added, in hexadecimal digits. Nothing can be added any more.
  std::string hex();

 private:
  void digest(std::span<const std::byte> bytes);

  ThreadPool& pool_;
  std::vector<std::byte> pending_;  // less than a block
  std::vector<std::byte> digests_;  // of whole blocks, one behind the other
};

std::string block_hash(std::span<const std::byte> bytes, ThreadPool& pool);
// Of a file, which is read piece by piece. FileError.
std::string block_hash_of_file(const std::filesystem::path& path, ThreadPool& pool);

}  // namespace sotto
