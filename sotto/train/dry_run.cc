#include <chrono>
#include <memory>

#include "sotto/aggregate/aggregator.h"
#include "sotto/comm/threads.h"
#include "sotto/core/random.h"
#include "sotto/model/model.h"
#include "sotto/train/trainer.h"

namespace sotto {

DryRun dry_run(const TrainOptions& options) {
  const auto data = open_dataset(options.data, Split::train);
  const auto model = make_model("--model", options.model, data->shape(), data->classes(), 1);
  const Layout& layout = model->layout();
  const auto buckets = plan_buckets(layout, static_cast<std::size_t>(options.bucket_kib) * 1024);

  DryRun result;
  result.parameters = layout.numel();
  result.buckets = buckets.size();
  const int ranks = static_cast<int>(options.ranks);
  result.bytes_sent.resize(static_cast<std::size_t>(ranks));
  run_threads(ranks, std::chrono::seconds(options.deadline), [&](Communicator& communicator, Mailbox& /*mailbox*/) {
    const auto aggregator = make_aggregator("--codec", options.aggregator, options.codec, buckets);
    std::vector<float> gradient(layout.size());
    Philox random(static_cast<std::uint64_t>(options.seed), Purpose::test,
                  static_cast<std::uint64_t>(communicator.rank()));
    for (const Segment& segment : layout.segments()) {
      for (std::size_t i = 0; i < segment.numel(); ++i) {
        gradient[segment.offset + i] = static_cast<float>(random.normal());
      }
    }
    Phases phases;
    const Key key{static_cast<std::uint64_t>(options.seed), static_cast<std::uint16_t>(communicator.rank()), 0, 0};
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      Bucket bucket{std::span(gradient).subspan(buckets[b].range.begin, buckets[b].range.size()), &buckets[b].layout,
                    static_cast<std::uint16_t>(b)};
      aggregator->average(bucket, key, communicator, phases);
    }
    result.bytes_sent[static_cast<std::size_t>(communicator.rank())] = communicator.traffic().bytes_sent;
    if (communicator.rank() == 0) {
      result.aggregator = aggregator->name();
      result.dense_bytes = communicator.all_reduce_bytes(layout.size(), DType::f32);
    }
  });
  return result;
}

}  // namespace sotto
