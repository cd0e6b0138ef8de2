#include "sotto/codec/message.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "sotto/core/error.h"
#include "sotto/kernels/checksum.h"

namespace sotto {
namespace {

constexpr std::size_t checked_bytes = sizeof(Header) - sizeof(Header::crc);

std::uint32_t checksum(const std::byte* header, std::span<const std::byte> body) {
  return kernels::crc32(kernels::crc32(0, {header, checked_bytes}), body);
}

void expect_field(const char* field, std::uint64_t got, std::uint64_t wanted, const Header& header) {
  if (got == wanted) return;
  throw WireError(fmt::format("message of {} {} where {} was expected (origin {}, step {}, bucket {}, part {})", field,
                              got, wanted, header.origin, header.step, header.bucket, header.part));
}

}  // namespace

MessageView MessageView::parse(std::span<const std::byte> bytes) {
  MessageView view;
  if (bytes.size() < sizeof(Header)) {
    throw WireError(
        fmt::format("truncated message: {} bytes, and the header alone has {}", bytes.size(), sizeof(Header)));
  }
  Header& header = view.header_;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != Header::magic_value) {
    throw WireError(
        fmt::format("not a message: it starts with {:04x} instead of {:04x}", header.magic, Header::magic_value));
  }
  if (header.version != Header::current_version) {
    throw WireError(fmt::format("message of format version {}; this program reads version {}", header.version,
                                Header::current_version));
  }
  if (header.body_bytes > bytes.size() - sizeof(Header)) {
    throw WireError(fmt::format("truncated message: a body of {} bytes is announced, {} are there", header.body_bytes,
                                bytes.size() - sizeof(Header)));
  }
  view.body_ = bytes.subspan(sizeof(Header), header.body_bytes);
  if (checksum(bytes.data(), view.body_) != header.crc) {
    throw WireError(fmt::format("damaged message: wrong checksum (it says origin {}, step {}, bucket {}, part {})",
                                header.origin, header.step, header.bucket, header.part));
  }
  return view;
}

std::size_t MessageView::announced_size(std::span<const std::byte> buffer) {
  Header header;
  if (buffer.size() < sizeof(Header)) return buffer.size();
  std::memcpy(&header, buffer.data(), sizeof(Header));
  if (header.magic != Header::magic_value || header.body_bytes > buffer.size() - sizeof(Header)) return buffer.size();
  return sizeof(Header) + header.body_bytes;
}

void MessageView::expect(const Expected& expected) const {
  expect_field("generation", header_.generation, expected.generation, header_);
  expect_field("origin", header_.origin, expected.origin, header_);
  expect_field("step", header_.step, expected.step, header_);
  expect_field("bucket", header_.bucket, expected.bucket, header_);
  expect_field("part", header_.part, expected.part, header_);
}

std::span<std::byte> Message::begin(std::size_t max_body) {
  if (buffer_.size() < sizeof(Header) + max_body) buffer_.resize(sizeof(Header) + max_body);
  size_ = 0;
  return std::span(buffer_).subspan(sizeof(Header), max_body);
}

void Message::finish(Header header, std::size_t body_bytes, const SummedBytes& summed) {
  header.body_bytes = static_cast<std::uint32_t>(body_bytes);
  std::memcpy(buffer_.data(), &header, sizeof(Header));
  const auto body = std::span<const std::byte>(buffer_).subspan(sizeof(Header), body_bytes);
  const std::uint32_t before = checksum(buffer_.data(), body.first(summed.range.begin));
  kernels::JoinedCrc joined;
  joined.add(before, 0);
  joined.add(summed.crc, summed.range.size());
  header.crc = kernels::crc32(joined.value(), body.subspan(summed.range.end));
  std::memcpy(buffer_.data() + checked_bytes, &header.crc, sizeof(header.crc));
  size_ = sizeof(Header) + body_bytes;
}

MessageView Message::view() const {
  if (size_ == 0) throw std::logic_error("Message::view: nothing was encoded into it");
  MessageView view;
  std::memcpy(&view.header_, buffer_.data(), sizeof(Header));
  view.body_ = std::span(buffer_).subspan(sizeof(Header), size_ - sizeof(Header));
  return view;
}

}  // namespace sotto
