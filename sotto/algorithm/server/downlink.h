#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/aggregate/opened_messages.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/server/shard.h"

namespace sotto {

// Models on their way from servers to workers. An exact code is of the model itself. Any other is of the difference to
// what the worker knows, which is then the same on both sides: what it leaves out is in the next difference, so it is
// the server's own error feedback.
class Downlink {
 public:
  Downlink(const StageSpecs& codec, std::shared_ptr<ThreadPool> workers, std::span<const BucketPlan> buckets);

  bool whole() const { return whole_; }  // sends models themselves
  std::size_t max_bytes(const Shard& shard) const;
  // Appends a message for every part of the server's model. `known`, where the model is not sent itself, follows.
  void encode(const Shard& shard, std::vector<float>& model, std::vector<float>& known, const Key& key,
              std::vector<std::byte>& out);
  // Replaces those buckets in the flat vector, once all messages were looked through: WireError.
  void decode(const Shard& shard, std::span<const std::byte> bytes, Expected expected, std::span<float> flat);

  void visit_state(StateVisitor& visitor) { codec_->visit_state(visitor); }

 private:
  std::shared_ptr<Codec> codec_;
  bool whole_ = false;
  std::vector<float> difference_;
  OpenedMessages opened_;  // of the parts of a shard
  Message message_;
};

// The codec of models on their way back: `asked`, or the workers' where nothing was asked and it is a contraction of
// differences, or f32. ConfigError when it cannot be used.
StageSpecs downlink_codec(const std::string& asked, const StageSpecs& uplink, std::span<const BucketPlan> buckets);

}  // namespace sotto
