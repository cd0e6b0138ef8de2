#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/thread_pool.h"

namespace sotto {

// FNV-1a, 64 bits. Identifies names and shapes, the same on every machine. Not a checksum of data.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) step(static_cast<unsigned char>(c));
    step(0xFF);  // "ab" + "c" differs from "a" + "bc"
  }
  void add(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) step(static_cast<unsigned char>(value >> (8 * i)));
  }
  std::uint64_t value() const { return value_; }
  std::uint32_t folded() const { return static_cast<std::uint32_t>(value_ ^ (value_ >> 32)); }

 private:
  void step(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001B3ULL; }
  std::uint64_t value_ = 0xCBF29CE484222325ULL;
};

// A hash of long contents that several threads can compute together: the SHA-256 of the SHA-256s of all blocks of 1 MiB
// (the last block may be shorter).
class BlockHash {
 public:
  static constexpr std::size_t block = std::size_t{1} << 20;

  explicit BlockHash(ThreadPool& pool) : pool_(pool) {}

  // Appends bytes. The hash does not depend on how the contents are divided into calls.
  void add(std::span<const std::byte> bytes);
  // The hash of everything that was added, in hexadecimal digits. REQUIRES that add() is not called afterwards.
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
