#include "sotto/codec/code/rans.h"

#include <fmt/format.h>

#include <bit>
#include <numeric>

#include "sotto/codec/code/bit_stream.h"
#include "sotto/kernels/bits.h"

namespace sotto {
namespace {

constexpr unsigned least_precision = 10;
constexpr unsigned quick_precision = 12;  // its tables stay in the first-level cache
constexpr std::ptrdiff_t few_symbols = 64;

}  // namespace

unsigned precision_for(std::span<const std::uint32_t> counts) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const std::uint64_t most = *std::ranges::max_element(counts);
  const auto occurring = std::ssize(counts) - std::ranges::count(counts, 0U);
  // With few symbols, it costs little to give rare symbols too high a frequency, unless the others cost hardly
  // anything.
  const unsigned wanted =
      occurring <= few_symbols && 4 * most <= 3 * total ? quick_precision : kernels::rans_most_precision;
  return std::clamp(static_cast<unsigned>(std::bit_width(total)), least_precision, wanted);
}

void share_frequencies(std::span<const std::uint32_t> counts, unsigned precision,
                       std::span<std::uint32_t> frequencies) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const auto occurring = static_cast<std::uint64_t>(std::ssize(counts) - std::ranges::count(counts, 0U));
  const std::uint64_t shared = (std::uint64_t{1} << precision) - occurring;
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    frequencies[s] = counts[s] == 0 ? 0 : static_cast<std::uint32_t>(1 + counts[s] * shared / total);
    sum += frequencies[s];
  }
  const auto most = std::ranges::max_element(counts) - counts.begin();
  frequencies[static_cast<std::size_t>(most)] += static_cast<std::uint32_t>((std::uint64_t{1} << precision) - sum);
}

std::optional<std::size_t> write_frequencies(std::span<const std::uint32_t> frequencies, unsigned precision,
                                             std::span<std::byte> out) {
  BitWriter writer(out);
  writer.put(precision, 8);
  std::uint32_t left = 1U << precision;
  for (std::size_t s = 0; left > 0; left -= frequencies[s++]) writer.put_gamma(frequencies[s] + 1);
  return writer.size();
}

FrequencyTable read_frequencies(std::span<const std::byte> in, std::span<std::uint32_t> frequencies) {
  BitReader reader(in);
  const auto precision = static_cast<unsigned>(reader.get(8));
  if (precision < least_precision || precision > kernels::rans_most_precision) {
    throw WireError(fmt::format("rans: frequencies of {} bits", precision));
  }
  std::uint32_t left = 1U << precision;
  std::ranges::fill(frequencies, 0U);
  for (std::size_t s = 0; left > 0; left -= frequencies[s++]) {
    if (s == frequencies.size()) throw WireError("rans: frequencies that add up to too little");
    frequencies[s] = reader.get_gamma() - 1;
    if (frequencies[s] > left) throw WireError("rans: frequencies that add up to too much");
  }
  return {precision, reader.finish()};
}

namespace {

// Frequencies of the earlier symbols of a chunk; the encoder and the decoder both know these symbols. The frequencies
// are used for one block of symbols; then the symbols of that block are counted, too.
class AdaptiveModel {
 public:
  static constexpr std::size_t first_block = 256;  // symbols; each block is twice as long as the one before, up to
  static constexpr std::size_t longest_block = 8192;
  static constexpr std::uint32_t most_counted = 1U << 16;  // counts are halved when there are more

  explicit AdaptiveModel(std::size_t alphabet) : alphabet_(alphabet), total_(static_cast<std::uint32_t>(alphabet)) {
    std::fill_n(counts_.begin(), alphabet, 1U);
  }
  unsigned precision() const { return alphabet_ <= 64 ? 12 : 14; }
  std::size_t block() const { return block_; }
  void frequencies(std::span<std::uint32_t> out) const { share_frequencies(counts(), precision(), out); }
  void add(std::span<const std::uint16_t> symbols) {
    kernels::count_symbols(symbols, std::span(counts_).first(alphabet_));
    total_ += static_cast<std::uint32_t>(symbols.size());
    block_ = std::min(2 * block_, longest_block);
    if (total_ <= most_counted) return;
    total_ = 0;
    for (std::uint32_t& count : std::span(counts_).first(alphabet_)) total_ += count = (count + 1) / 2;
  }

 private:
  std::span<const std::uint32_t> counts() const { return std::span(counts_).first(alphabet_); }
  std::size_t alphabet_;
  std::size_t block_ = first_block;
  std::uint32_t total_;
  std::array<std::uint32_t, 512> counts_{};
};

constexpr std::size_t many_bytes = 8192;  // in a chunk this long, many states cost almost nothing
constexpr std::size_t few_lanes = 4;
constexpr std::size_t surely_few_symbols = 4096;
constexpr std::size_t most_blocks = 64;  // blocks of a chunk's adaptive model
static_assert(SymbolCode::most_in_chunk / AdaptiveModel::longest_block + 8 < most_blocks);

using States = std::array<std::uint32_t, kernels::rans_most_lanes>;

}  // namespace

std::optional<std::size_t> Rans::write_model(std::span<const std::uint32_t> counts, std::span<std::byte> out) {
  if (adaptive_) return 0;
  precision_ = precision_for(counts);
  const auto frequencies = std::span(frequencies_).first(counts.size());
  share_frequencies(counts, precision_, frequencies);
  kernels::rans_ranges(frequencies, std::span(ranges_).first(counts.size()));
  return write_frequencies(frequencies, precision_, out);
}

std::size_t Rans::read_model(std::span<const std::byte> in, std::size_t alphabet) {
  if (adaptive_) return 0;
  const auto frequencies = std::span(frequencies_).first(alphabet);
  const FrequencyTable table = read_frequencies(in, frequencies);
  table_ =
      kernels::rans_slots(frequencies, table.precision, std::span(slots_).first(std::size_t{1} << table.precision));
  return table.bytes;
}

std::optional<std::span<const std::byte>> Rans::encode_chunk(std::span<const std::uint16_t> symbols,
                                                             std::size_t alphabet, std::span<std::byte> room) const {
  if (symbols.size() >= surely_few_symbols) {
    const auto chunk = encode_with(kernels::rans_most_lanes, symbols, alphabet, room);
    if (chunk.size() >= many_bytes) return chunk;
  }
  return encode_with(few_lanes, symbols, alphabet, room);
}

std::span<const std::byte> Rans::encode_with(std::size_t lanes, std::span<const std::uint16_t> symbols,
                                             std::size_t alphabet, std::span<std::byte> room) const {
  States all;
  const auto states = std::span(all).first(lanes);
  std::ranges::fill(states, kernels::rans_lowest);
  std::byte* const end = room.data() + room.size();
  std::byte* begin = end;
  if (adaptive_) {
    // Collects the frequencies of each block in order; then the blocks are coded, the last one first.
    std::array<std::array<std::uint16_t, most_symbols>, most_blocks> known;
    std::array<std::size_t, most_blocks + 1> begins{};
    std::array<std::uint32_t, most_symbols> some;
    AdaptiveModel model(alphabet);
    std::size_t blocks = 0;
    for (std::size_t at = 0; at < symbols.size(); ++blocks) {
      const std::size_t count = std::min(model.block(), symbols.size() - at);
      model.frequencies(std::span(some).first(alphabet));
      std::copy_n(some.begin(), alphabet, known[blocks].begin());
      model.add(symbols.subspan(at, count));
      begins[blocks + 1] = at += count;
    }
    std::array<std::uint32_t, most_symbols> ranges;
    while (blocks-- > 0) {
      std::copy_n(known[blocks].begin(), alphabet, some.begin());
      kernels::rans_ranges(std::span(some).first(alphabet), ranges);
      begin = kernels::rans_encode(symbols.subspan(begins[blocks], begins[blocks + 1] - begins[blocks]), ranges,
                                   model.precision(), states, begin);
    }
  } else {
    begin = kernels::rans_encode(symbols, std::span(ranges_).first(alphabet), precision_, states, begin);
  }
  begin -= states.size_bytes();
  for (std::size_t lane = 0; lane < states.size(); ++lane) kernels::store(begin, lane, states[lane]);
  return {begin, end};
}

void Rans::decode_chunk(std::span<const std::byte> in, std::size_t alphabet, std::span<std::uint16_t> symbols) const {
  States all;
  const auto states = std::span(all).first(in.size() < many_bytes ? few_lanes : kernels::rans_most_lanes);
  if (in.size() < states.size_bytes()) throw WireError("rans: a chunk without states");
  for (std::size_t lane = 0; lane < states.size(); ++lane) states[lane] = kernels::load<std::uint32_t>(in.data(), lane);
  if (std::ranges::any_of(states, [](std::uint32_t state) { return state < kernels::rans_lowest; })) {
    throw WireError("rans: a state below the lowest one");
  }
  auto words = in.subspan(states.size_bytes());
  const auto decode = [&](const kernels::RansSlots& table, std::span<std::uint16_t> some) {
    const std::size_t used = kernels::rans_decode(table, states, words, some);
    if (used > words.size()) throw WireError("rans: a chunk that ends too early");
    words = words.subspan(used);
  };
  if (adaptive_) {
    std::array<std::uint32_t, most_symbols> frequencies;
    std::array<std::uint32_t, std::size_t{1} << kernels::rans_most_precision> slots;
    AdaptiveModel model(alphabet);
    const auto some_frequencies = std::span(frequencies).first(alphabet);
    for (std::size_t at = 0; at < symbols.size();) {
      const auto some = symbols.subspan(at, std::min(model.block(), symbols.size() - at));
      model.frequencies(some_frequencies);
      decode(kernels::rans_slots(some_frequencies, model.precision(),
                                 std::span(slots).first(std::size_t{1} << model.precision())),
             some);
      model.add(some);
      at += some.size();
    }
  } else {
    decode(table_, symbols);
  }
  if (!words.empty()) throw WireError("rans: " + std::to_string(words.size()) + " bytes after a chunk");
  if (std::ranges::any_of(states, [](std::uint32_t state) { return state != kernels::rans_lowest; })) {
    throw WireError("rans: a chunk that does not end where it began");
  }
}

}  // namespace sotto
