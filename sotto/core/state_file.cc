#include "sotto/core/state_file.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <limits>

#include "sotto/core/bytes.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::string_view state_magic = "sottosta";
constexpr std::uint32_t state_version = 2;
constexpr std::size_t head_bytes = 8 + 4;         // before the text
constexpr std::size_t trailer_bytes = 1 + 8 + 4;  // after the last section

struct Kind {
  enum : std::uint8_t { end = 0, floats = 1, bytes = 2, number = 3 };
};

constexpr std::size_t longest_short = BlockHash::block;  // shorter appends are gathered before they are written

std::string_view name_of(std::uint8_t kind) {
  switch (kind) {
    case Kind::floats: return "floats";
    case Kind::bytes: return "bytes";
    case Kind::number: return "a number";
    default: return "of an unknown kind";
  }
}

// The bytes of one value; 0 for an unknown kind.
std::size_t size_of(std::uint8_t kind) {
  switch (kind) {
    case Kind::floats: return sizeof(float);
    case Kind::bytes: return 1;
    case Kind::number: return sizeof(std::uint64_t);
    default: return 0;
  }
}

}  // namespace

StateWriter::StateWriter(const std::filesystem::path& path, std::string_view text, ThreadPool& pool)
    : file_(path), hash_(pool) {
  append(std::as_bytes(std::span(state_magic)));
  append(std::as_bytes(std::span(&state_version, 1)));
  append_text(text);
}

StateWriter::StateWriter(const std::filesystem::path& path, std::string_view text)
    : own_(std::make_unique<ThreadPool>(1)), file_(path), hash_(*own_) {
  append(std::as_bytes(std::span(state_magic)));
  append(std::as_bytes(std::span(&state_version, 1)));
  append_text(text);
}

StateWriter::~StateWriter() = default;

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

std::string StateWriter::finish() {
  const auto kind = Kind::end;
  append(std::as_bytes(std::span(&kind, 1)));
  const std::uint64_t size = size_ + short_.size() + sizeof size + sizeof crc_;
  append(std::as_bytes(std::span(&size, 1)));
  put(std::exchange(short_, {}));
  const std::uint32_t crc = crc_;
  put(std::as_bytes(std::span(&crc, 1)));
  file_.commit();
  return hash_.hex();
}

void StateWriter::append(std::span<const std::byte> content) {
  const bool is_long = content.size() > longest_short;
  if (!is_long) short_.insert(short_.end(), content.begin(), content.end());
  if (is_long || short_.size() >= longest_short) {
    put(short_);
    short_.clear();
  }
  if (is_long) put(content);
}

void StateWriter::put(std::span<const std::byte> content) {
  crc_ = libdeflate_crc32(crc_, content.data(), content.size());
  size_ += content.size();
  hash_.add(content);
  file_.write(content);
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

// Reads the file in order up to `end`; WireError when a read goes beyond it.
class StateReader::Cursor {
 public:
  Cursor(const FileReader& file, std::uint64_t at, std::uint64_t end) : file_(file), at_(at), end_(end) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return end_ - at_; }
  void skip(std::uint64_t count) { at_ += count; }
  template <class T>
  T get(const char* what) {
    T value{};
    take(std::as_writable_bytes(std::span(&value, 1)), what);
    return value;
  }
  std::string text(const char* what) {
    const auto length = get<std::uint32_t>(what);
    require(length, what);
    std::string text(length, '\0');
    take(std::as_writable_bytes(std::span(text)), what);
    return text;
  }

 private:
  void require(std::uint64_t count, const char* what) const {
    if (count > left()) throw WireError(fmt::format("truncated {}: {} bytes wanted, {} left", what, count, left()));
  }
  void take(std::span<std::byte> to, const char* what) {
    require(to.size(), what);
    file_.read(at_, to);
    at_ += to.size();
  }

  const FileReader& file_;
  std::uint64_t at_, end_;
};

StateReader::StateReader(const std::filesystem::path& path) : path_(path), file_(path) {
  try {
    parse(check_frame());
  } catch (const WireError& error) {
    fail(error.what());
  }
}

// Returns where sections end.
std::uint64_t StateReader::check_frame() const {
  std::array<std::byte, head_bytes> head{};
  if (file_.size() >= head.size()) file_.read(0, head);
  ByteReader reader(head);
  const auto name = reader.take(state_magic.size(), "head");
  if (!std::ranges::equal(name, std::as_bytes(std::span(state_magic)))) fail("not a file of this kind");
  if (const auto found = reader.get<std::uint32_t>("head"); found != state_version) {
    fail(fmt::format("format version {}; this program reads version {}", found, state_version));
  }
  if (file_.size() < head_bytes + trailer_bytes) fail("it was cut off");
  const std::uint64_t end = file_.size() - trailer_bytes, guarded = file_.size() - sizeof(std::uint32_t);
  std::uint32_t crc = 0;
  std::vector<std::byte> piece(std::min<std::uint64_t>(guarded, BlockHash::block));
  for (std::uint64_t at = 0; at < guarded;) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), guarded - at));
    file_.read(at, part);
    crc = libdeflate_crc32(crc, part.data(), part.size());
    at += part.size();
  }
  Cursor trailer(file_, end, file_.size());
  const auto kind = trailer.get<std::uint8_t>("trailer");
  const auto size = trailer.get<std::uint64_t>("trailer");
  if (trailer.get<std::uint32_t>("trailer") != crc) fail("the checksum does not match: it was cut off or changed");
  if (kind != Kind::end || size != file_.size()) fail("its end is malformed");
  return end;
}

// The checksum is right, but it could be forged, so every length is checked, too.
void StateReader::parse(std::uint64_t end) {
  Cursor cursor(file_, head_bytes, end);
  text_ = cursor.text("text");
  while (cursor.left() > 0) {
    Section section;
    section.kind = cursor.get<std::uint8_t>("kind of a section");
    const std::string name = cursor.text("name of a section");
    section.count = cursor.get<std::uint64_t>("length of a section");
    section.begin = cursor.at();
    const std::size_t width = size_of(section.kind);
    if (width == 0 || section.count > cursor.left() / width || (section.kind == Kind::number && section.count != 1)) {
      fail(fmt::format("section {} is malformed", name));
    }
    cursor.skip(section.count * width);
    if (!sections_.emplace(name, section).second) fail(fmt::format("section {} is there twice", name));
  }
}

void StateReader::visit(std::string_view name, std::vector<float>& values) {
  const Section& section = values.empty() ? take(name, Kind::floats) : take(name, Kind::floats, values.size());
  values.resize(section.count);
  file_.read(section.begin, std::as_writable_bytes(std::span(values)));
}

void StateReader::visit(std::string_view name, std::vector<std::uint8_t>& values) {
  const Section& section = values.empty() ? take(name, Kind::bytes) : take(name, Kind::bytes, values.size());
  values.resize(section.count);
  file_.read(section.begin, std::as_writable_bytes(std::span(values)));
}

void StateReader::visit(std::string_view name, std::uint64_t& value) {
  file_.read(take(name, Kind::number).begin, std::as_writable_bytes(std::span(&value, 1)));
}

void StateReader::get(std::string_view name, std::span<float> values) {
  file_.read(take(name, Kind::floats, values.size()).begin, std::as_writable_bytes(values));
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
