#include "sotto/algorithm/server/uplink.h"

#include <fmt/format.h>

#include "sotto/aggregate/memory/momentum.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {

Uplink::Uplink(const Recipe& recipe, std::shared_ptr<ThreadPool> pool, std::span<const BucketPlan> buckets, int ranks)
    : memory_(make_memory(recipe.memory, {buckets, ranks})),
      codec_(make_codec(recipe.stages, std::move(pool))),
      opened_(codec_->make_opened()) {
  check_uplink(recipe, buckets);
}

void Uplink::send(const Bucket& gradient, const Key& key, const StepContext& step, int server, Mailbox& mailbox,
                  Timings& timings) {
  Timer timer;
  const Range whole{0, gradient.values.size()};
  Bucket prepared = memory_->prepare(gradient, step, {});
  codec_->encode(prepared, key, {}, {&whole, 1}, {&message_, 1});
  timings.encode += timer.lap();
  mailbox.send(server, message_.bytes());
  timings.network += timer.lap();
  if (memory_->remembers()) {
    opened_->open(message_.view(), *prepared.layout, whole);
    memory_->settle(prepared, *opened_);
  }
  timings.encode += timer.lap();
}

void Uplink::visit_state(StateVisitor& visitor) {
  memory_->visit_state(visitor);
  codec_->visit_state(visitor);
}

void check_uplink(const Recipe& recipe, std::span<const BucketPlan> buckets) {
  const auto refuse = [&](std::string_view why) {
    throw ConfigError(fmt::format("{}: {}", named(recipe.option, recipe.said), why));
  };
  if (recipe.by_itself()) {
    refuse(fmt::format("`{}` is made by all ranks together, and a server decodes the messages of each one by one",
                       recipe.aggregator.text()));
  }
  if (recipe.aggregator) {
    refuse(fmt::format("it is published with the aggregator `{}`, and a server makes means; write its parts instead",
                       recipe.aggregator.text()));
  }
  if (is_momentum_of_mean(recipe.memory)) {
    refuse(
        "`momentum(mean=true)` is made of the mean gradient, and a server alone has the mean; leave `mean` out, and "
        "each worker makes the momentum of its own gradients");
  }
  const auto codec = make_codec(recipe.stages);
  for (const BucketPlan& bucket : buckets) {
    if (codec->agreed_count(bucket.layout) > 0) refuse("ranks agree on its scales first, and workers do not meet");
  }
}

}  // namespace sotto
