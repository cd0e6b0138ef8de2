#include <atomic>
#include <bit>
#include <cstring>

#include "sotto/codec/index_codes.h"
#include "sotto/kernels/bits.h"

namespace sotto {
namespace {

// Writes the remainders of indices [begin, end). begin * shift is a multiple of 8.
void write_remainders(std::span<const std::uint32_t> indices, std::size_t begin, std::size_t end, unsigned shift,
                      std::byte* out) {
  const std::uint32_t mask = (1U << shift) - 1;
  std::uint64_t bits = 0;
  unsigned held = 0;
  for_gaps(indices, begin, end, [&](std::uint32_t gap) {
    bits |= static_cast<std::uint64_t>(gap & mask) << held;
    held += shift;
    if (held < 32) return;
    std::memcpy(out, &bits, 4);
    out += 4;
    bits >>= 32;
    held -= 32;
  });
  std::memcpy(out, &bits, (held + 7) / 8);
}

// Writes each quotient as that many zero bits and then a one. REQUIRES zeros in `out`, except for bits of other
// stretches, which may lie in its first and last byte.
void write_quotients(std::span<const std::uint32_t> indices, std::size_t begin, std::size_t end, unsigned shift,
                     std::uint64_t bit, std::span<std::byte> out) {
  const auto set = [&](std::uint64_t at, unsigned bits) {
    std::atomic_ref(reinterpret_cast<unsigned char&>(out[at])).fetch_or(static_cast<unsigned char>(bits));
  };
  std::uint64_t byte = bit / 8;
  unsigned bits = 0;
  const std::uint64_t first = byte;
  for_gaps(indices, begin, end, [&](std::uint32_t gap) {
    bit += gap >> shift;
    if (bit / 8 != byte) {
      if (byte == first) {
        set(byte, bits);
      } else {
        out[byte] = static_cast<std::byte>(bits);
      }
      byte = bit / 8;
      bits = 0;
    }
    bits |= 1U << (bit % 8);
    ++bit;
  });
  if (bits != 0) set(byte, bits);
}

// Reads the indices whose quotients end in bytes [begin, end) of `quotients`, with remainders number place .. place +
// its.size() - 1. Returns the sum of these remainders. Quotients are counted from the first of the list.
std::uint64_t read_part(std::span<const std::byte> remainders, std::span<const std::byte> quotients, unsigned shift,
                        std::size_t begin, std::size_t end, std::size_t place, std::span<std::uint32_t> its) {
  const std::uint32_t mask = (1U << shift) - 1;
  const auto remainder = [&](std::size_t j) {
    const std::size_t bit = j * shift;
    const std::size_t byte = bit / 8;
    std::uint64_t bits = 0;
    std::memcpy(&bits, remainders.data() + byte, std::min(sizeof(bits), remainders.size() - byte));
    return static_cast<std::uint32_t>(bits >> (bit % 8)) & mask;
  };
  // Remainders below `far` can be read as whole words, without a bounds check.
  const std::size_t far = remainders.size() < sizeof(std::uint64_t) || shift == 0
                              ? 0
                              : ((remainders.size() - sizeof(std::uint64_t)) * 8) / shift;
  const auto near_remainder = [&](std::size_t j) {
    const std::size_t bit = j * shift;
    std::uint64_t bits = 0;
    std::memcpy(&bits, remainders.data() + bit / 8, sizeof(bits));
    return static_cast<std::uint32_t>(bits >> (bit % 8)) & mask;
  };
  std::uint64_t sum = 0;
  std::size_t j = place;
  std::uint32_t* out = its.data();
  for (std::size_t i = begin; i < end; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    const std::size_t size = std::min(sizeof(word), end - i);
    if (size == sizeof(word)) {
      std::memcpy(&word, &quotients[i], sizeof(word));
    } else {
      std::memcpy(&word, &quotients[i], size);
    }
    for (; word != 0; word &= word - 1, ++j) {
      const std::uint64_t quotient = 8 * i + static_cast<std::uint64_t>(std::countr_zero(word)) - j;
      if (shift > 0) sum += j < far ? near_remainder(j) : remainder(j);
      *out++ = static_cast<std::uint32_t>((quotient << shift) + sum + j);
    }
  }
  return sum;
}

}  // namespace

void write_rice(ThreadPool& pool, std::span<const std::uint32_t> indices, unsigned shift, std::span<std::byte> out) {
  out[0] = static_cast<std::byte>(shift);
  const auto count = static_cast<std::uint32_t>(indices.size());
  std::memcpy(&out[1], &count, sizeof(count));
  const std::size_t remainder_bytes = (indices.size() * shift + 7) / 8;
  std::byte* const remainders = out.data() + rice_head;
  const auto quotients = out.subspan(rice_head + remainder_bytes);
  std::ranges::fill(quotients, std::byte{0});

  // Each stretch has whole bytes of remainders.
  const std::size_t step = (task_size(indices.size(), index_grain(pool)) + 7) / 8 * 8;
  std::array<std::uint64_t, most_tasks + 1> bits{};
  pool.run_stretches(indices.size(), step, [&](std::size_t begin, std::size_t end) {
    std::uint64_t sum = end - begin;
    for_gaps(indices, begin, end, [&](std::uint32_t gap) { sum += gap >> shift; });
    bits[begin / step + 1] = sum;
  });
  for (std::size_t t = 0; t < most_tasks; ++t) bits[t + 1] += bits[t];
  pool.run_stretches(indices.size(), step, [&](std::size_t begin, std::size_t end) {
    if (shift > 0) write_remainders(indices, begin, end, shift, remainders + begin / 8 * shift);
    write_quotients(indices, begin, end, shift, bits[begin / step], quotients);
  });
}

std::size_t read_rice(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                      std::span<std::uint32_t> indices) {
  if (in.size() < rice_head) throw WireError("truncated index list");
  const auto shift = std::to_integer<unsigned>(in[0]);
  std::uint32_t count = 0;
  std::memcpy(&count, &in[1], sizeof(count));
  if (shift > max_rice_shift) throw WireError(fmt::format("malformed index list: remainders of {} bits", shift));
  if (count == 0) throw WireError("malformed index list: Rice's code of no indices");
  if (count > indices.size()) throw_too_many(indices.size());
  const std::size_t remainder_bits = std::size_t{count} * shift;
  const std::size_t remainder_bytes = (remainder_bits + 7) / 8;
  if (in.size() - rice_head <= remainder_bytes) throw WireError("truncated index list");
  const auto remainders = in.subspan(rice_head, remainder_bytes);
  const auto quotients = in.subspan(rice_head + remainder_bytes);
  if (!kernels::tail_is_zero(remainders, remainder_bits)) {
    throw WireError("malformed index list: bits after the last remainder that are not zero");
  }
  const auto last = std::to_integer<std::uint8_t>(quotients.back());
  if (last == 0) throw WireError("malformed index list: a last byte without an index");
  const std::uint64_t bits = 8 * quotients.size() - static_cast<unsigned>(std::countl_zero(last));
  // The sum of all quotients: once it is checked, nothing below can overflow.
  const std::uint64_t sum = bits - std::min<std::uint64_t>(bits, count);
  if (sum > (std::uint64_t{atoms} >> shift)) throw WireError(fmt::format("an index beyond {} atoms", atoms));
  const auto read = [&](std::size_t begin, std::size_t end, std::size_t place, std::span<std::uint32_t> its) {
    return read_part(remainders, quotients, shift, begin, end, place, its);
  };
  const IndicesRead all = read_in_parts(
      pool, quotients.size(), indices.first(count),
      [&](std::size_t begin, std::size_t end) { return bits_in(quotients.subspan(begin, end - begin)); }, read);
  if (all.count != count) {
    throw WireError(fmt::format("malformed index list: {} indices, where {} were announced", all.count, count));
  }
  const std::uint64_t end = (sum << shift) + all.moved + count;
  if (end > atoms) throw_beyond(end - 1, atoms);
  return count;
}

}  // namespace sotto
