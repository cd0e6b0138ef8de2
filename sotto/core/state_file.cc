#include "sotto/core/state_file.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <cstring>
#include <limits>
#include <stdexcept>

#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::string_view magic = "sottosta";
constexpr std::uint32_t current_version = 1;

struct Head {
  char magic[8];
  std::uint32_t version;
  std::uint32_t crc;
};
constexpr std::size_t guarded_from = sizeof(Head);  // where the bytes begin that the checksum guards

enum Kind : std::uint8_t { floats = 1, bytes = 2, number = 3 };

std::string_view name_of(std::uint8_t kind) {
  switch (kind) {
    case Kind::floats: return "floats";
    case Kind::bytes: return "bytes";
    case Kind::number: return "a number";
    default: return "of an unknown kind";
  }
}

// Bytes a value takes; 0 for an unknown kind.
std::size_t size_of(std::uint8_t kind) {
  switch (kind) {
    case Kind::floats: return sizeof(float);
    case Kind::bytes: return 1;
    case Kind::number: return sizeof(std::uint64_t);
    default: return 0;
  }
}

std::uint32_t checksum(std::span<const std::byte> content) {
  return libdeflate_crc32(0, content.data(), content.size());
}

void copy(std::span<const std::byte> from, void* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace

StateWriter::StateWriter(std::string_view text) {
  bytes_.resize(sizeof(Head) + sizeof(std::uint64_t));  // filled in by write()
  append_text(text);
}

void StateWriter::visit(std::string_view name, std::vector<float>& values) { add(name, values); }

void StateWriter::visit(std::string_view name, std::vector<std::uint8_t>& values) {
  append_section(Kind::bytes, name, values.size(), std::as_bytes(std::span(values)));
}

void StateWriter::visit(std::string_view name, std::uint64_t& value) {
  append_section(Kind::number, name, 1, std::as_bytes(std::span(&value, 1)));
}

void StateWriter::add(std::string_view name, std::span<const float> values) {
  append_section(Kind::floats, name, values.size(), std::as_bytes(values));
}

void StateWriter::write(const std::filesystem::path& path) {
  ByteWriter(std::span(bytes_).subspan(guarded_from)).put(std::uint64_t{bytes_.size()});
  Head head{{}, current_version, checksum(std::span(bytes_).subspan(guarded_from))};
  magic.copy(head.magic, sizeof(head.magic));
  ByteWriter(bytes_).put(head);
  write_file_atomic(path, bytes_);
}

void StateWriter::append(std::span<const std::byte> content) {
  bytes_.insert(bytes_.end(), content.begin(), content.end());
}

void StateWriter::append_text(std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) throw std::logic_error("StateWriter: text is too long");
  const auto length = static_cast<std::uint32_t>(text.size());
  append(std::as_bytes(std::span(&length, 1)));
  append(std::as_bytes(std::span(text)));
}

void StateWriter::append_section(std::uint8_t kind, std::string_view name, std::size_t count,
                                 std::span<const std::byte> content) {
  if (!names_.emplace(name).second) throw std::logic_error(fmt::format("StateWriter: {} is visited twice", name));
  append(std::as_bytes(std::span(&kind, 1)));
  append_text(name);
  const std::uint64_t wide = count;
  append(std::as_bytes(std::span(&wide, 1)));
  append(content);
}

StateReader::StateReader(const std::filesystem::path& path) : path_(path), bytes_(read_file(path)) {
  try {
    parse();
  } catch (const WireError& error) {
    fail(error.what());
  }
}

void StateReader::parse() {
  ByteReader reader(bytes_);
  const auto head = reader.get<Head>("head");
  if (std::string_view(head.magic, sizeof(head.magic)) != magic) fail("not a file of this kind");
  if (head.version != current_version) {
    fail(fmt::format("format version {}; this program reads version {}", head.version, current_version));
  }
  const auto size = reader.get<std::uint64_t>("head");
  if (size != bytes_.size()) fail(fmt::format("it has {} bytes, and should have {}", bytes_.size(), size));
  if (checksum(std::span(bytes_).subspan(guarded_from)) != head.crc) fail("the checksum does not match");

  // From here on only somebody who made the checksum fit could mislead us; every length is checked all the same.
  const auto text = [&](const char* what) {
    const auto content = reader.take(reader.get<std::uint32_t>(what), what);
    return std::string(reinterpret_cast<const char*>(content.data()), content.size());
  };
  text_ = text("text");
  while (reader.left() > 0) {
    Section section;
    section.kind = reader.get<std::uint8_t>("kind of a section");
    const std::string name = text("name of a section");
    section.count = reader.get<std::uint64_t>("length of a section");
    const std::size_t width = size_of(section.kind);
    if (width == 0 || section.count > reader.left() / width || (section.kind == Kind::number && section.count != 1)) {
      fail(fmt::format("section {} is malformed", name));
    }
    section.content = reader.take(section.count * width, "section");
    if (!sections_.emplace(name, section).second) fail(fmt::format("section {} is there twice", name));
  }
}

void StateReader::visit(std::string_view name, std::vector<float>& values) {
  const Section& section = values.empty() ? take(name, Kind::floats) : take(name, Kind::floats, values.size());
  values.resize(section.count);
  copy(section.content, values.data());
}

void StateReader::visit(std::string_view name, std::vector<std::uint8_t>& values) {
  const Section& section = values.empty() ? take(name, Kind::bytes) : take(name, Kind::bytes, values.size());
  values.resize(section.count);
  copy(section.content, values.data());
}

void StateReader::visit(std::string_view name, std::uint64_t& value) { copy(take(name, Kind::number).content, &value); }

void StateReader::get(std::string_view name, std::span<float> values) {
  copy(take(name, Kind::floats, values.size()).content, values.data());
}

void StateReader::finish() const {
  for (const auto& [name, section] : sections_) {
    if (!section.visited) fail(fmt::format("section {} belongs to nothing in this job", name));
  }
}

const StateReader::Section& StateReader::take(std::string_view name, std::uint8_t kind) {
  const auto found = sections_.find(name);
  if (found == sections_.end()) fail(fmt::format("section {} is missing", name));
  Section& section = found->second;
  if (section.kind != kind) {
    fail(fmt::format("section {} is {}, and should be {}", name, name_of(section.kind), name_of(kind)));
  }
  section.visited = true;
  return section;
}

const StateReader::Section& StateReader::take(std::string_view name, std::uint8_t kind, std::size_t count) {
  const Section& section = take(name, kind);
  if (section.count != count) {
    fail(fmt::format("section {} has {} values, and should have {}", name, section.count, count));
  }
  return section;
}

void StateReader::fail(std::string_view reason) const {
  throw FileError(fmt::format("cannot use {}: {}", path_.string(), reason));
}

}  // namespace sotto
