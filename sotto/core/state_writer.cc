#include <fmt/format.h>
#include <libdeflate.h>

#include <limits>
#include <stdexcept>
#include <utility>

#include "sotto/core/state_file.h"
#include "sotto/core/state_format.h"

namespace sotto {
namespace {

using namespace state_format;

constexpr std::size_t longest_short = BlockHash::block;  // shorter appends are gathered before they are written

}  // namespace

StateWriter::StateWriter(const std::filesystem::path& path, std::string_view text, ThreadPool& pool)
    : file_(path), hash_(pool) {
  append(std::as_bytes(std::span(magic)));
  append(std::as_bytes(std::span(&version, 1)));
  append_text(text);
}

StateWriter::StateWriter(const std::filesystem::path& path, std::string_view text)
    : own_(std::make_unique<ThreadPool>(1)), file_(path), hash_(*own_) {
  append(std::as_bytes(std::span(magic)));
  append(std::as_bytes(std::span(&version, 1)));
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

}  // namespace sotto
