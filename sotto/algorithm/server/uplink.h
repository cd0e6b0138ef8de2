#pragma once

#include <memory>
#include <span>

#include "sotto/aggregate/encoder.h"
#include "sotto/aggregate/memory/memory.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/mailbox.h"

namespace sotto {

// Sends a worker's gradients to servers, through its memory and codec. The memory does not hold back what was sent,
// even if a server drops it.
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
  std::unique_ptr<Opened> opened_;
  Message message_;
};

// ConfigError for a recipe that needs several ranks, or whose messages a server cannot decode one by one.
void check_uplink(const Recipe& recipe, std::span<const BucketPlan> buckets);

}  // namespace sotto
