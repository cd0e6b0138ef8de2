#pragma once

#include <memory>
#include <span>

#include "sotto/codec/chain_message.h"

namespace sotto {

// An open message of a chain. It also reads linear forms and the means of several messages.
class OpenedChain final : public Opened, private ChainMessage {
 public:
  using ChainMessage::ChainMessage;

  void open(const MessageView& message, const Layout& layout, Range part) override;
  std::int64_t add_shares(std::span<std::size_t> bytes) override;
  void add_to(Bucket& out, float scale) override;
  void clear_chosen(Bucket& out) override;

  using ChainMessage::linear_count;
  // For a linear form of this step; no message need be open.
  void from_linear(std::span<const std::byte> in, float scale, const Key& key, Bucket& out);
  void clear_chosen(const Key& key, Bucket& out);
  // Codec::add_mean_of_holders(); no message need be open here.
  void add_mean_of_holders(std::span<const std::unique_ptr<Opened>> messages, Range part, Bucket& out);
  // Codec::add_sum() of messages that can be merged; no message need be open here. Returns false, and does nothing, if
  // these cannot.
  bool add_merged(std::span<const std::unique_ptr<Opened>> messages, float scale, Bucket& out);

 private:
  void require_open(const char* caller) const;  // std::logic_error unless a message is open
  template <class Visit>
  bool visit_units_of(std::span<const std::unique_ptr<Opened>> messages, Visit visit);
  std::span<const std::byte> decompress(std::span<const std::byte> body, const Plan& plan);
  std::span<const std::byte> decompress_symbols(std::span<const std::byte> coded, std::span<const std::byte> side,
                                                std::size_t packed);
  Quantised read_body(std::span<const std::byte> body, const Header& header, const Layout& layout, const Plan& plan);
  std::size_t read_sizes(std::span<const std::byte> side);
  void read_selected(std::span<const std::byte> index, IndexCode code, const Plan& plan);
  void read_selected_within(std::span<const std::byte> index, IndexCode code);
  void select_known(const Layout& layout, const Streams& streams, const Plan& plan);
  void add_rows(const Slot& slot, float scale, Bucket& out);
  void clear_selected(Bucket& out);
  void add_to_sums(float share, std::span<float> sums, std::span<std::uint32_t> holders);
  void take_means(const Layout& layout, std::size_t messages);

  bool is_open_ = false;
  // Of the message that is open:
  Header header_;
  Quantised quantised_;  // its units
  std::span<const std::byte> index_list_, within_list_;

  Scratch<float> sums_;             // of the rows of all atoms, over the messages
  Scratch<std::uint32_t> holders_;  // number of messages that hold each atom
  Scratch<std::byte> merged_;       // side information of messages that were merged
  std::vector<Quantised> merging_;  // a unit of each of these messages
};

}  // namespace sotto
