#pragma once

#include <memory>
#include <utility>

#include "sotto/codec/chain_encoder.h"
#include "sotto/codec/codec.h"
#include "sotto/codec/opened_chain.h"

namespace sotto {

// A codec made of stages: transform | select | select | quantise | code.
class Chain final : public Codec {
 public:
  // `made` are the stages that `stages` names.
  Chain(StageSpecs stages, Stages made, std::shared_ptr<ThreadPool> pool = std::make_shared<ThreadPool>(1))
      : Chain(std::make_shared<ChainParts>(std::move(stages), std::move(made), std::move(pool))) {}

  Contract contract(const Layout& layout) const override { return ChainMessage(parts_).contract(layout); }
  std::size_t max_bytes(const Layout& layout, Range part) const override {
    return ChainMessage(parts_).max_bytes(layout, part);
  }
  std::size_t agreed_count(const Layout& layout) const override { return parts_->agreed_count(layout); }
  void propose(const Bucket& bucket, std::span<float> numbers) override { encoder_.propose(bucket, numbers); }
  void encode(const Bucket& bucket, const Key& key, std::span<const float> agreed, std::span<const Range> parts,
              std::span<Message> out) override {
    encoder_.encode(bucket, key, agreed, parts, out);
  }
  std::unique_ptr<Opened> make_opened() const override { return std::make_unique<OpenedChain>(parts_); }
  void add_mean_of_holders(std::span<const std::unique_ptr<Opened>> messages, Range part, Bucket& out) override {
    reader_.add_mean_of_holders(messages, part, out);
  }
  void add_sum(std::span<const std::unique_ptr<Opened>> messages, float scale, Bucket& out) override {
    if (!traits().merges || !reader_.add_merged(messages, scale, out)) Codec::add_sum(messages, scale, out);
  }

  std::size_t linear_count(const Layout& layout) override { return reader_.linear_count(layout); }
  void to_linear(const Bucket& bucket, float scale, const Key& key, std::span<std::byte> out) override {
    encoder_.to_linear(bucket, scale, key, out);
  }
  void from_linear(std::span<const std::byte> in, float scale, const Key& key, Bucket& out) override {
    reader_.from_linear(in, scale, key, out);
  }
  void clear_chosen(const Key& key, Bucket& out) override { reader_.clear_chosen(key, out); }
  void visit_state(StateVisitor& visitor) override;

 private:
  explicit Chain(std::shared_ptr<ChainParts> parts)
      : Codec(parts->traits), parts_(std::move(parts)), encoder_(parts_), reader_(parts_) {}

  std::shared_ptr<ChainParts> parts_;
  ChainEncoder encoder_;
  OpenedChain reader_;  // reads linear forms and means
};

}  // namespace sotto
