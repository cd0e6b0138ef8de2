#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/state.h"

namespace sotto {

// A checkpoint is one file: a free text (what it is a checkpoint of) and named values. Little-endian:
//   8 bytes "sottosta" | u32 version = 1 | u32 CRC-32 of all that follows | u64 size of the whole file |
//   u32 length, text | sections up to the end of the file
//   section: u8 kind (1 floats, 2 bytes, 3 one u64) | u32 length, name | u64 number of values | values

// Collects what it visits, each name once, and writes it.
class StateWriter final : public StateVisitor {
 public:
  explicit StateWriter(std::string_view text = "");

  void visit(std::string_view name, std::vector<float>& values) override;
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override;
  void visit(std::string_view name, std::uint64_t& value) override;
  // A borrowed vector, such as a model's parameters.
  void add(std::string_view name, std::span<const float> values);

  // Atomically (file.h); FileError.
  void write(const std::filesystem::path& path);

 private:
  void append(std::span<const std::byte> bytes);
  void append_text(std::string_view text);
  void append_section(std::uint8_t kind, std::string_view name, std::size_t count, std::span<const std::byte> content);

  std::vector<std::byte> bytes_;
  std::set<std::string, std::less<>> names_;
};

// Reads a whole file and verifies it; then replaces the values that it visits, in any order. A file that is damaged or
// truncated in any way is a FileError that names it. So is a section that is missing, of another kind, or of another
// length than the vector that it is read into (an empty vector takes any length); that one names the section too.
class StateReader final : public StateVisitor {
 public:
  explicit StateReader(const std::filesystem::path& path);

  const std::string& text() const { return text_; }
  bool has(std::string_view name) const { return sections_.contains(std::string(name)); }

  void visit(std::string_view name, std::vector<float>& values) override;
  void visit(std::string_view name, std::vector<std::uint8_t>& bytes) override;
  void visit(std::string_view name, std::uint64_t& value) override;
  // Into a borrowed vector, of just this length.
  void get(std::string_view name, std::span<float> values);

  // FileError when the file has a section that was not visited.
  void finish() const;

 private:
  struct Section {
    std::uint8_t kind = 0;
    std::uint64_t count = 0;
    std::span<const std::byte> content;
    bool visited = false;
  };
  void parse();
  const Section& take(std::string_view name, std::uint8_t kind);
  const Section& take(std::string_view name, std::uint8_t kind, std::size_t count);  // of this many values
  [[noreturn]] void fail(std::string_view reason) const;

  std::filesystem::path path_;
  std::vector<std::byte> bytes_;
  std::string text_;
  std::map<std::string, Section, std::less<>> sections_;
};

}  // namespace sotto
