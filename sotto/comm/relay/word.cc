#include "sotto/comm/relay/word.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <random>
#include <span>

#include "sotto/core/error.h"
#include "sotto/kernels/checksum.h"

namespace sotto {
namespace {

constexpr std::uint32_t relay_magic = 0x6C657273;  // "srel"
constexpr std::uint8_t relay_version = 1;          // words of version 0 had 24 bytes, without a checksum

// A word as it is sent.
struct Head {
  std::uint32_t magic = relay_magic;
  std::uint8_t kind = 0, version = relay_version;
  std::uint16_t zero = 0;
  RelayId id{};
  std::uint32_t crc = 0;

  std::uint32_t crc_of_rest() const {
    return kernels::crc32(0, std::as_bytes(std::span(this, 1)).first<offsetof(Head, crc)>());
  }
};
static_assert(sizeof(Head) == RelayWord::bytes);

}  // namespace

RelayId new_relay_id() {
  RelayId id;
  std::random_device random;
  std::ranges::generate(id, [&] { return static_cast<std::byte>(random()); });
  return id;
}

RelayRoom write_relay_word(const RelayWord& word) {
  Head head{.kind = static_cast<std::uint8_t>(word.kind), .id = word.id};
  head.crc = head.crc_of_rest();
  return std::bit_cast<RelayRoom>(head);
}

RelayWord read_relay_word(const RelayRoom& data) {
  const auto head = std::bit_cast<Head>(data);
  const bool right = head.magic == relay_magic && head.zero == 0;
  if (right && head.version != relay_version) {
    throw WireError(fmt::format("a word to a relay of version {} instead of {}", head.version, relay_version));
  }
  if (!right || head.kind < 1 || head.kind > static_cast<std::uint8_t>(RelayWord::Kind::absent)) {
    throw WireError(fmt::format("{:#x} {:#x} is no word of a relay", head.magic, head.kind));
  }
  if (head.crc != head.crc_of_rest()) throw WireError("a word to a relay was changed on the way");
  return {static_cast<RelayWord::Kind>(head.kind), head.id};
}

bool may_be_relay_word(const RelayRoom& data, std::size_t bytes) {
  const auto head = std::bit_cast<Head>(data);
  return bytes < offsetof(Head, zero) + sizeof(head.zero) ||
         (head.magic == relay_magic && head.version == relay_version);
}

}  // namespace sotto
