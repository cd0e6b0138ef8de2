#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::fuzzing {

// An input of decode_fuzz: a codec as text, a line feed, two bytes, and then the bytes of a message, or changes to one.
// A codec alone means a valid message. Inputs do not depend on the order of a table, or on the hashes in a header.
struct DecodeInput {
  enum class Form : std::uint8_t {
    body,          // `bytes` is the body; the header is right but for the flags
    changed_body,  // `bytes` and `flags` change a valid body and its flags, by exclusive or
    changed,       // `bytes` changes a whole valid message, by exclusive or; then its checksum is made right
    raw,           // `bytes` is the whole message
  };

  std::string codec;
  Form form = Form::changed_body;
  bool thorough = false;   // also decodes by a new instance, and calls clear_chosen()
  bool threads = false;    // decodes on two threads
  std::uint8_t scene = 0;  // one of 4 layouts
  std::uint8_t data = 0;   // one of 4 kinds of values in a valid message
  std::uint8_t flags = 0;
  std::vector<std::byte> bytes;

  static std::optional<DecodeInput> parse(std::span<const std::uint8_t> input) {
    const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
    const std::size_t line = text.find('\n');
    if (line == std::string_view::npos || line == 0 || line > 1000) return std::nullopt;
    DecodeInput result;
    result.codec = text.substr(0, line);
    const auto rest = std::as_bytes(input.subspan(line + 1));
    if (rest.empty()) return result;
    const auto how = std::to_integer<unsigned>(rest[0]);
    result.form = static_cast<Form>((how & 3U) ^ 1U);  // a byte of 0 is changed_body
    result.thorough = (how >> 2U & 1U) != 0;
    result.threads = (how >> 3U & 1U) != 0;
    result.scene = how >> 4U & 3U;
    result.data = how >> 6U & 3U;
    if (rest.size() < 2) return result;
    result.flags = std::to_integer<std::uint8_t>(rest[1]);
    result.bytes.assign(rest.begin() + 2, rest.end());
    return result;
  }

  std::vector<std::uint8_t> packed() const {
    std::vector<std::uint8_t> input(codec.begin(), codec.end());
    const unsigned how = (static_cast<unsigned>(form) ^ 1U) | (thorough ? 4U : 0U) | (threads ? 8U : 0U) |
                         static_cast<unsigned>(scene) << 4U | static_cast<unsigned>(data) << 6U;
    input.insert(input.end(), {'\n', static_cast<std::uint8_t>(how), flags});
    for (const std::byte byte : bytes) input.push_back(std::to_integer<std::uint8_t>(byte));
    return input;
  }
};

}  // namespace sotto::fuzzing
