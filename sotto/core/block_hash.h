#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/thread_pool.h"

namespace sotto {

// A hash of long contents that several threads can compute together: the SHA-256 of the SHA-256s of all blocks of 1 MiB
// (the last block may be shorter).
class BlockHash {
 public:
  static constexpr std::size_t block = std::size_t{1} << 20;

  explicit BlockHash(ThreadPool& pool) : pool_(pool) {}

  // Appends bytes. The hash does not depend on how the contents are divided into calls.
  void add(std::span<const std::byte> bytes);
  // The hash of everything that was added, in hexadecimal digits. Call add() no more after it.
  std::string hex();

 private:
  void digest(std::span<const std::byte> bytes);

  ThreadPool& pool_;
  std::vector<std::byte> pending_;  // less than a block
  std::vector<std::byte> digests_;  // of the complete blocks, concatenated
};

std::string block_hash(std::span<const std::byte> bytes, ThreadPool& pool);
// The block hash of a file, which is read piece by piece. FileError when it cannot be read.
std::string block_hash_of_file(const std::filesystem::path& path, ThreadPool& pool);

}  // namespace sotto
