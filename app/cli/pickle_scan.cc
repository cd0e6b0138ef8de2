#include "app/cli/pickle_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "sotto/core/bytes.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

// What follows an opcode (Python's pickletools has them all).
enum class Argument : std::uint8_t { none, fixed, counted, line, two_lines, memo };
struct Opcode {
  unsigned char code;
  Argument argument;
  std::uint8_t bytes = 0;  // of the argument, of its length or of the index
};

constexpr std::array<Opcode, 27> with_argument{{
    {'F', Argument::line},        {'I', Argument::line},        {'L', Argument::line},
    {'S', Argument::line},        {'V', Argument::line},        {'P', Argument::line},
    {'g', Argument::line},        {'p', Argument::line},        {'c', Argument::two_lines},
    {'i', Argument::two_lines},   {'J', Argument::fixed, 4},    {'K', Argument::fixed, 1},
    {'M', Argument::fixed, 2},    {'G', Argument::fixed, 8},    {'h', Argument::memo, 1},
    {'j', Argument::memo, 4},     {'q', Argument::memo, 1},     {'r', Argument::memo, 4},
    {0x80, Argument::fixed, 1},   {'T', Argument::counted, 4},  {'U', Argument::counted, 1},
    {'X', Argument::counted, 4},  {'B', Argument::counted, 4},  {'C', Argument::counted, 1},
    {0x8A, Argument::counted, 1}, {0x8B, Argument::counted, 4}, {0x8C, Argument::counted, 1},
}};
constexpr std::string_view without_argument = "(.012NQRabde}ls]tuo)\x81\x85\x86\x87\x88\x89\x8F\x90\x91\x93\x94";

Opcode opcode_of(unsigned char code) {
  const auto* const found = std::ranges::find(with_argument, code, &Opcode::code);
  if (found != with_argument.end()) return *found;
  if (without_argument.find(static_cast<char>(code)) != std::string_view::npos) return {code, Argument::none};
  throw WireError(fmt::format("its pickle has an opcode 0x{:02x}, which torch.save does not write", code));
}

std::uint64_t number(ByteReader& reader, std::size_t bytes) {
  std::uint64_t value = 0;
  const auto digits = reader.take(bytes, "pickle");
  for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(digits[i]) << (8 * i);
  return value;
}

void skip_line(ByteReader& reader) {
  while (reader.get<char>("pickle") != '\n') {
  }
}

}  // namespace

void check_pickle(std::span<const std::byte> pickle) {
  ByteReader reader(pickle);
  for (;;) {
    const auto code = reader.get<unsigned char>("pickle");
    if (code == '.') return;
    const Opcode opcode = opcode_of(code);
    switch (opcode.argument) {
      case Argument::none: break;
      case Argument::fixed: reader.take(opcode.bytes, "pickle"); break;
      case Argument::counted: reader.take(number(reader, opcode.bytes), "pickle"); break;
      case Argument::line: skip_line(reader); break;
      case Argument::two_lines:
        skip_line(reader);
        skip_line(reader);
        break;
      case Argument::memo:
        if (const auto index = number(reader, opcode.bytes); index > pickle.size()) {
          throw WireError(fmt::format("its pickle of {} bytes has a memo of {} entries", pickle.size(), index));
        }
        break;
    }
  }
}

}  // namespace sotto
