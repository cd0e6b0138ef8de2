#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/aggregate/memory/memory.h"
#include "sotto/aggregate/round.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/algorithm/server/server_plan.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// Sends a worker's gradients to servers, through its memory and codec. The memory counts a gradient as sent even if a
// server drops it.
class Uplink {
 public:
  Uplink(const Recipe& recipe, std::shared_ptr<ThreadPool> pool, std::span<const BucketPlan> buckets, int ranks);

  void send(const Bucket& gradient, const Key& key, const StepContext& step, int server, Mailbox& mailbox,
            Timings& timings);
  std::size_t max_bytes(const Layout& layout) const { return codec_->max_bytes(layout, {0, layout.size()}); }
  void visit_state(StateVisitor& visitor);

 private:
  std::unique_ptr<Memory> memory_;
  std::shared_ptr<Codec> codec_;
  std::unique_ptr<MessageReader> opened_;
  Message message_;
};

// ConfigError for a recipe that needs several ranks, or whose messages a server cannot decode one by one.
void check_uplink(const Recipe& recipe, std::span<const BucketPlan> buckets);

// Sends models from servers to workers. An exact codec encodes the model itself. Any other codec encodes the difference
// from the model that the worker knows; both sides compute that model alike. The part that the codec leaves out is part
// of the next difference: that is the server's error feedback.
class Downlink {
 public:
  Downlink(const StageSpecs& codec, std::shared_ptr<ThreadPool> pool, std::span<const BucketPlan> buckets);

  bool sends_models() const { return sends_models_; }  // whole models, not differences
  std::size_t max_bytes(const Shard& shard) const;
  // Appends a message for every part of the server's model to `out`. If differences are sent, adds them to `known`, as
  // the worker does.
  void encode(const Shard& shard, std::vector<float>& model, std::vector<float>& known, const Key& key,
              std::vector<std::byte>& out);
  // Checks all messages, and then brings the buckets of this shard in the flat vector up to date. WireError.
  void decode(const Shard& shard, std::span<const std::byte> bytes, Expected expected, std::span<float> flat);

  void visit_state(StateVisitor& visitor) { codec_->visit_state(visitor); }

 private:
  std::shared_ptr<Codec> codec_;
  bool sends_models_ = false;
  std::vector<float> difference_;
  OpenedMessages opened_;  // by part of a shard
  Message message_;
};

// Reads the option `down`. ConfigError for a memory or an aggregator.
StageSpecs read_downlink(const std::string& text);
// The codec for models: `asked`; without it the workers' codec if that can be used on differences of models, else f32.
// ConfigError if `asked` cannot be used.
StageSpecs downlink_codec(const std::optional<StageSpecs>& asked, const StageSpecs& uplink,
                          std::span<const BucketPlan> buckets);

}  // namespace sotto
