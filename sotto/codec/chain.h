#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sotto/codec/chain_message.h"
#include "sotto/codec/codec.h"

namespace sotto {

// Reads messages of a chain.
class ChainReader final : public MessageReader, private ChainMessage {
 public:
  using ChainMessage::ChainMessage;

  void open(const MessageView& message, const Layout& layout, Range part) override;
  std::int64_t add_shares(std::span<std::size_t> bytes) override;
  void add_to(Bucket& out, float scale) override;
  void clear_chosen(Bucket& out) override;

 private:
  friend class Chain;                           // which adds up the messages of several readers
  void require_open(const char* caller) const;  // std::logic_error unless a message is open
  std::span<const std::byte> decompress(std::span<const std::byte> body, const Plan& plan);
  std::span<const std::byte> decompress_symbols(std::span<const std::byte> coded, std::span<const std::byte> side,
                                                std::size_t packed);
  Quantised read_body(std::span<const std::byte> body, const Header& header, const Layout& layout, const Plan& plan);
  std::size_t read_sizes(std::span<const std::byte> side);
  void read_selected(std::span<const std::byte> index, IndexCode code, const Plan& plan);
  void read_selected_within(std::span<const std::byte> index, IndexCode code);
  void add_to_sums(float share, std::span<float> sums, std::span<std::uint32_t> holders);

  bool is_open_ = false;
  // Of the message that is open:
  Header header_;
  Quantised quantised_;  // its units
  std::span<const std::byte> index_list_, within_list_;
};

// A codec made of stages: transform | select | select | quantise | code.
class Chain final : public Codec, private ChainMessage {
 public:
  // `made` are the stages that `stages` names.
  Chain(StageSpecs stages, Stages made, std::shared_ptr<ThreadPool> pool = std::make_shared<ThreadPool>(1))
      : Chain(std::make_shared<ChainParts>(std::move(stages), std::move(made), std::move(pool))) {}

  Contract contract(const Layout& layout) const override { return ChainMessage(parts_).contract(layout); }
  std::size_t max_bytes(const Layout& layout, Range part) const override {
    return ChainMessage(parts_).max_bytes(layout, part);
  }
  std::size_t agreed_count(const Layout& layout) const override { return parts_->agreed_count(layout); }
  void propose(const Bucket& bucket, std::span<float> numbers) override;
  void encode(const Bucket& bucket, const Key& key, std::span<const float> agreed, std::span<const Range> parts,
              std::span<Message> out) override;
  std::unique_ptr<MessageReader> make_opened() const override { return std::make_unique<ChainReader>(parts_); }
  void add_mean_of_holders(std::span<const std::unique_ptr<MessageReader>> messages, Range part, Bucket& out) override;
  void add_sum(std::span<const std::unique_ptr<MessageReader>> messages, float scale, Bucket& out) override {
    if (!traits().merges || !add_merged(messages, scale, out)) Codec::add_sum(messages, scale, out);
  }

  std::size_t linear_count(const Layout& layout) override { return ChainMessage::linear_count(layout); }
  void to_linear(const Bucket& bucket, float scale, const Key& key, std::span<std::byte> out) override;
  void from_linear(std::span<const std::byte> in, float scale, const Key& key, Bucket& out) override;
  void clear_chosen(const Key& key, Bucket& out) override;
  void visit_state(StateVisitor& visitor) override;

 private:
  explicit Chain(std::shared_ptr<ChainParts> parts) : Codec(parts->traits), ChainMessage(std::move(parts)) {}

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
  void take_means(const Layout& layout, std::size_t messages);
  template <class Visit>
  bool visit_units_of(std::span<const std::unique_ptr<MessageReader>> messages, Visit visit);
  // add_sum() of messages that can be merged. Returns false, and does nothing, if these messages cannot be merged.
  bool add_merged(std::span<const std::unique_ptr<MessageReader>> messages, float scale, Bucket& out);

  std::span<const float> agreed_;    // of the current bucket
  bool takes_all_ = false;           // all values of the current part are selected, and used in place
  std::vector<std::uint32_t> crcs_;  // of the symbols of each stretch
  Scratch<float> energies_, rows_;
  Scratch<std::uint32_t> numbers_, kept_numbers_;  // number of the random draw for each selected float
  Scratch<float> sums_;                            // of the rows of all atoms, over the messages
  Scratch<std::uint32_t> holders_;                 // number of messages that hold each atom
  Scratch<std::byte> merged_;                      // side information of messages that were merged
  std::vector<Quantised> merging_;                 // a unit of each of these messages
};

}  // namespace sotto
