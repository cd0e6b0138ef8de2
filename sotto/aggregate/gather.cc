#include "sotto/aggregate/gather.h"

#include <algorithm>

#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

class SentMessage final : public Sent {
 public:
  SentMessage(const Codec& codec, const MessageView& message, Range part)
      : codec_(codec), message_(message), part_(part) {}
  void add_to(Bucket& out, float scale) const override { codec_.add_decoded(message_, part_, scale, out); }

 private:
  const Codec& codec_;
  MessageView message_;
  Range part_;
};

class Gather final : public Aggregator {
 public:
  explicit Gather(AggregatorParts parts) : parts_(std::move(parts)) {
    std::size_t agreed = 0;
    std::size_t elements = 0;
    for (const BucketPlan& plan : parts_.buckets) {
      room_ = std::max(room_, parts_.codec->max_bytes(plan.layout, {0, plan.layout.size()}));
      agreed = std::max(agreed, parts_.codec->agreed_count(plan.layout));
      elements = std::max(elements, plan.layout.size());
    }
    agreed_.resize(agreed);
    mean_.resize(elements);
  }

  std::string_view name() const override { return "gather"; }

  void average(Bucket& bucket, const Key& key, Communicator& communicator, Phases& phases) override {
    const Range whole{0, bucket.values.size()};
    Timer timer;
    Bucket prepared = parts_.memory->prepare(bucket);
    const auto agreed = std::span(agreed_).first(parts_.codec->agreed_count(*bucket.layout));
    if (!agreed.empty()) {
      parts_.codec->propose(prepared, agreed);
      phases.encode += timer.lap();
      communicator.all_reduce(agreed, ReduceOp::max);
      phases.network += timer.lap();
    }
    parts_.codec->encode(prepared, key, agreed, {&whole, 1}, {&own_, 1});
    phases.encode += timer.lap();

    exchange(communicator);
    phases.network += timer.lap();

    decode_all(bucket, key, communicator);
    parts_.memory->settle(prepared, SentMessage(*parts_.codec, own_.view(), whole));
    phases.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    parts_.memory->visit_state(visitor);
    parts_.codec->visit_state(visitor);
  }

 private:
  void exchange(Communicator& communicator) {
    const int ranks = communicator.size();
    received_.resize(static_cast<std::size_t>(ranks - 1) * room_);
    sends_.clear();
    recvs_.clear();
    for (int i = 1; i < ranks; ++i) {  // rank+1 first: no two ranks begin with the same receiver
      sends_.push_back({(communicator.rank() + i) % ranks, own_.bytes(), {}});
      recvs_.push_back({(communicator.rank() + ranks - i) % ranks,
                        std::span(received_).subspan(static_cast<std::size_t>(i - 1) * room_, room_),
                        {},
                        MessageView::announced_size});
    }
    if (ranks > 1) communicator.exchange(sends_, recvs_);
  }

  // The mean is made beside the bucket, so that a bad message of any rank leaves bucket and memory as they were, and
  // none is decoded twice. In rank order: sums of floats depend on it.
  void decode_all(Bucket& bucket, const Key& key, const Communicator& communicator) {
    Bucket mean = bucket;
    mean.values = std::span(mean_).first(bucket.values.size());
    std::ranges::fill(mean.values, 0.0F);
    const Range whole{0, bucket.values.size()};
    const float share = 1.0F / static_cast<float>(communicator.size());
    for (int rank = 0; rank < communicator.size(); ++rank) {
      if (rank == communicator.rank()) {
        parts_.codec->add_decoded(own_.view(), whole, share, mean);
        continue;
      }
      try {
        const MessageView message = MessageView::parse(buffer_of(rank, communicator));
        message.expect({key.generation, static_cast<std::uint16_t>(rank), key.step, bucket.index, 0});
        parts_.codec->add_decoded(message, whole, share, mean);
      } catch (const WireError& error) {
        throw WireError("rank " + std::to_string(communicator.rank()) + ": message of rank " + std::to_string(rank) +
                        " at step " + std::to_string(key.step) + ": " + error.what());
      }
    }
    std::ranges::copy(mean.values, bucket.values.begin());
  }

  // Where exchange() put the message of another rank.
  std::span<const std::byte> buffer_of(int rank, const Communicator& communicator) const {
    const int i = (communicator.rank() - rank + communicator.size()) % communicator.size();
    return recvs_[static_cast<std::size_t>(i - 1)].buffer;
  }

  AggregatorParts parts_;
  std::size_t room_ = 0;  // for the largest message of any bucket
  Message own_;
  std::vector<float> agreed_;
  std::vector<float> mean_;
  std::vector<std::byte> received_;
  std::vector<Send> sends_;
  std::vector<Recv> recvs_;
};

}  // namespace

std::string gather_suits(const Codec& /*codec*/, std::span<const BucketPlan> /*buckets*/) { return ""; }

std::unique_ptr<Aggregator> make_gather(AggregatorParts parts) { return std::make_unique<Gather>(std::move(parts)); }

}  // namespace sotto
