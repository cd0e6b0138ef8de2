#pragma once

#include <span>
#include <vector>

#include "sotto/codec/chain_message.h"

namespace sotto {

// Makes messages and linear forms of a chain.
class ChainEncoder : public ChainMessage {
 public:
  using ChainMessage::ChainMessage;

  void propose(const Bucket& bucket, std::span<float> numbers);
  void encode(const Bucket& bucket, const Key& key, std::span<const float> agreed, std::span<const Range> parts,
              std::span<Message> out);
  void to_linear(const Bucket& bucket, float scale, const Key& key, std::span<std::byte> out);

 private:
  void reserve(const Plan& plan);
  void encode_part(const Bucket& bucket, const Key& key, Range part, std::uint16_t number, Message& out);
  void apply_transform(const Bucket& bucket, const Streams& streams, const Plan& plan);
  std::span<const std::uint32_t> apply_select(const Bucket& bucket, const Streams& streams, const Plan& plan);
  void require_finite(const Select& select, const Bucket& bucket, const Key& key) const;
  void write_factors(const Slot& slot, const Bucket& bucket, const Streams& streams, std::span<float> rows);
  std::span<const float> gather_pieces(const Bucket& bucket);
  bool may_take_all() const;
  void gather_rows(const Bucket& bucket, const Streams& streams);
  std::span<const std::uint32_t> apply_select_within(const Bucket& bucket, const Streams& streams);
  static std::uint64_t place_of(std::uint16_t bucket, std::size_t segment) {
    return (std::uint64_t{bucket} << 32U) | segment;
  }
  static std::optional<std::uint64_t> place_of(const Slot& slot, const Streams& streams);
  Values values_of(const Unit& unit, const Bucket& bucket, const Streams& streams);
  SummedBytes quantise_units(const Bucket& bucket, const Streams& streams, std::span<std::byte> side,
                             std::span<std::byte> packed);
  SummedBytes quantise_one_by_one(const Bucket& bucket, const Streams& streams, std::span<std::byte> side,
                                  std::span<std::byte> packed);
  void require_readable(const Quantised& written, const Bucket& bucket, const Key& key);
  using ChainMessage::throw_not_finite;
  [[noreturn]] void throw_not_finite(const Unit& unit, const Bucket& bucket, const Key& key);
  [[noreturn]] static void throw_not_finite(std::size_t segment, const Bucket& bucket, const Key& key);
  bool quantise(const Values& values, std::span<std::byte> side, std::span<std::byte> packed, std::uint32_t& crc);
  std::size_t compress(std::span<std::byte> body, std::size_t head, Range packed);
  std::span<const float> linear_values(const Bucket& bucket, const Key& key);

  std::span<const float> agreed_;    // of the current bucket
  bool takes_all_ = false;           // of the current part: the selection leaves nothing out
  std::vector<std::uint32_t> crcs_;  // of the symbols of each stretch
  Scratch<float> energies_, rows_;
  Scratch<std::uint32_t> numbers_, kept_numbers_;  // number of the random draw for each selected float
};

}  // namespace sotto
