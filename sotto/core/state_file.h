#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/hash.h"
#include "sotto/core/open_file.h"
#include "sotto/core/state.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// A file of a checkpoint: a free text, which says what the file is part of, and named values. Little-endian:
//   8 bytes "sottosta" | u32 version = 2 | u32 length, text | sections |
//   u8 0 | u64 size of the whole file | u32 CRC-32 of all before it
//   section: u8 kind (1 floats, 2 bytes, 3 one u64) | u32 length, name | u64 number of values | values

// Writes values as it visits them, without a second copy of them. Each name may be visited once.
class StateWriter final : public StateVisitor {
 public:
  // The threads of the pool compute the hash. FileError, which any function below may throw as well.
  StateWriter(const std::filesystem::path& path, std::string_view text, ThreadPool& pool);
  explicit StateWriter(const std::filesystem::path& path, std::string_view text = "");  // hashes on one thread
  ~StateWriter() override;

  void visit(std::string_view name, std::vector<float>& values) override;
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override;
  void visit(std::string_view name, std::uint64_t& value) override;
  // Writes a borrowed vector, such as a model's parameters.
  void add(std::string_view name, std::span<const float> values);

  // Gives the file its name (AtomicFile) and returns its block_hash(). Without finish() there is no file.
  std::string finish();

 private:
  void append(std::span<const std::byte> bytes);
  void append_text(std::string_view text);
  void append_section(std::uint8_t kind, std::string_view name, std::size_t count, std::span<const std::byte> content);
  void put(std::span<const std::byte> bytes);

  std::unique_ptr<ThreadPool> own_;
  AtomicFile file_;
  BlockHash hash_;
  std::uint64_t size_ = 0;
  std::uint32_t crc_ = 0;
  std::vector<std::byte> short_;  // short appends that are not written yet
  std::set<std::string, std::less<>> names_;
};

// Verifies a file, then reads each visited value from it, in any order. FileError, which names the file, when the file
// is damaged or truncated. A FileError also names the section when that is missing, of another kind, or of another
// length than the visited vector (an empty vector takes any length).
class StateReader final : public StateVisitor {
 public:
  explicit StateReader(const std::filesystem::path& path);

  const std::string& text() const { return text_; }

  void visit(std::string_view name, std::vector<float>& values) override;
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override;
  void visit(std::string_view name, std::uint64_t& value) override;
  // Reads into a borrowed vector, which must have the length of the section.
  void get(std::string_view name, std::span<float> values);

  // FileError when the file has a section that was not visited.
  void finish() const;

 private:
  struct Section {
    std::uint8_t kind = 0;
    std::uint64_t count = 0, begin = 0;  // number of values, and offset of the first one in the file
    bool visited = false;
  };
  class Cursor;
  std::uint64_t check_frame() const;
  void parse(std::uint64_t end);
  const Section& take(std::string_view name, std::uint8_t kind);
  const Section& take(std::string_view name, std::uint8_t kind, std::size_t count);  // of this many values
  [[noreturn]] void fail(std::string_view reason) const;

  std::filesystem::path path_;
  FileReader file_;
  std::string text_;
  std::map<std::string, Section, std::less<>> sections_;
};

}  // namespace sotto
