#include "sotto/aggregate/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sotto/aggregate/all_reduce.h"
#include "sotto/aggregate/chunks.h"
#include "sotto/aggregate/gather.h"
#include "sotto/aggregate/scatter_reduce.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr double worth_it = 0.5;  // of gather's bytes

class AutoAggregator final : public Aggregator {
 public:
  explicit AutoAggregator(AggregatorParts parts) : parts_(std::move(parts)), sent_(parts_.buckets.size()) {
    linear_ = parts_.codec->linear_type().has_value();
    inner_ = linear_ ? make_all_reduce(parts_) : make_gather(parts_);
  }

  std::string_view name() const override { return inner_->name(); }

  std::string remark() const override {
    if (parts_.ranks == 1) return "";
    if (linear_)
      return fmt::format("aggregator: all_reduce, as `{}` can be summed on the way", parts_.codec->sentence());
    const auto text = [](std::uint64_t bytes) { return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024); };
    switch (choice_) {
      case gather:
        return fmt::format("aggregator: gather, {} a rank and step against {} for scatter_reduce", text(gather_bytes_),
                           text(scatter_bytes_));
      case scatter:
        return fmt::format("aggregator: scatter_reduce, {} a rank and step against {} for gather", text(scatter_bytes_),
                           text(gather_bytes_));
      default: return "";
    }
  }

  void average(Bucket& bucket, const Key& key, Communicator& communicator, Phases& phases) override {
    const std::uint64_t before = communicator.traffic().bytes_sent;
    inner_->average(bucket, key, communicator, phases);
    if (linear_ || choice_ != open || parts_.ranks == 1) return;
    sent_.at(bucket.index) = static_cast<double>(communicator.traffic().bytes_sent - before);
    if (bucket.index + std::size_t{1} == sent_.size()) choose(communicator);
  }

  void visit_state(StateVisitor& visitor) override {
    if (!linear_) {
      ScopedState own(visitor, "auto");
      own.visit("choice", choice_);
      own.visit("gather_bytes", gather_bytes_);
      own.visit("scatter_reduce_bytes", scatter_bytes_);
      adopt();
    }
    inner_->visit_state(visitor);
  }

  void retire() override { inner_->retire(); }

 private:
  enum Choice : std::uint64_t { open, gather, scatter };

  // REQUIRES sent_ of this rank for every bucket.
  void choose(Communicator& communicator) {
    communicator.all_reduce(std::span(sent_), ReduceOp::sum);
    for (double& bytes : sent_) bytes /= parts_.ranks;
    gather_bytes_ = static_cast<std::uint64_t>(std::accumulate(sent_.begin(), sent_.end(), 0.0));
    for (double& bytes : sent_) bytes /= parts_.ranks - 1;
    const double bytes = scatter_reduce_bytes(parts_, sent_);
    scatter_bytes_ = static_cast<std::uint64_t>(bytes);
    choice_ = bytes <= worth_it * static_cast<double>(gather_bytes_) ? scatter : gather;
    adopt();
  }

  // The memory goes along: gather and scatter_reduce ask the same of it.
  void adopt() {
    if (choice_ > scatter) throw FileError(fmt::format("a checkpoint with auto/choice {}: there is none", choice_));
    if (choice_ == scatter && inner_->name() != "scatter_reduce") inner_ = make_scatter_reduce(parts_);
  }

  AggregatorParts parts_;
  bool linear_ = false;
  std::unique_ptr<Aggregator> inner_;
  std::vector<double> sent_;  // by bucket, in the first step
  std::uint64_t choice_ = open;
  std::uint64_t gather_bytes_ = 0, scatter_bytes_ = 0;  // a rank and step
};

}  // namespace

double scatter_reduce_bytes(const AggregatorParts& parts, std::span<const double> bytes) {
  std::vector<double> sent(static_cast<std::size_t>(parts.ranks));
  for (std::size_t b = 0; b < parts.buckets.size(); ++b) {
    const Layout& layout = parts.buckets[b].layout;
    const auto chunks = cut_chunks(layout, parts.codec->contract(layout), parts.ranks);
    const double body = (bytes[b] - sizeof(Header)) / static_cast<double>(layout.size());
    for (int chunk = 0; chunk < parts.ranks; ++chunk) {
      const std::size_t size = chunks[static_cast<std::size_t>(chunk)].size();
      if (size == 0) continue;
      const double message = sizeof(Header) + body * static_cast<double>(size);
      const auto owner = static_cast<std::size_t>(owner_of(chunk, static_cast<int>(b), parts.ranks));
      for (std::size_t rank = 0; rank < sent.size(); ++rank) sent[rank] += rank == owner ? 0 : message;
      sent[owner] += message * (parts.ranks - 1);
    }
  }
  return *std::ranges::max_element(sent);
}

std::unique_ptr<Aggregator> make_auto(AggregatorParts parts) {
  return std::make_unique<AutoAggregator>(std::move(parts));
}

}  // namespace sotto
