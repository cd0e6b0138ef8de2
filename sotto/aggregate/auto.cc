#include "sotto/aggregate/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "sotto/aggregate/all_reduce.h"
#include "sotto/aggregate/chunks.h"
#include "sotto/aggregate/gather.h"
#include "sotto/aggregate/scatter_reduce.h"
#include "sotto/aggregate/sparse.h"
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
    if (choice_ == open) return "";
    std::string chosen, others;
    for (const auto& [choice, bytes] :
         {std::pair{gather, gather_bytes_}, {scatter, scatter_bytes_}, {sparse, sparse_bytes_}}) {
      if (choice == choice_) {
        chosen = fmt::format("{}, {} a rank and step", names[choice], text(bytes));
      } else if (bytes > 0) {
        others += fmt::format("{}{} for {}", others.empty() ? " against " : " and ", text(bytes), names[choice]);
      }
    }
    return "aggregator: " + chosen + others;
  }

  void average(Bucket& bucket, const Key& key, Communicator& communicator, Phases& phases) override {
    const std::uint64_t before = communicator.traffic().bytes_sent;
    inner_->average(bucket, key, communicator, phases);
    if (linear_ || choice_ != open || parts_.ranks == 1) return;
    sent_.at(bucket.index) = static_cast<double>(communicator.traffic().bytes_sent - before);
    if (++measured_ == sent_.size()) choose(communicator);
  }

  void visit_state(StateVisitor& visitor) override {
    if (!linear_) {
      ScopedState own(visitor, "auto");
      own.visit("choice", choice_);
      own.visit("gather_bytes", gather_bytes_);
      own.visit("scatter_reduce_bytes", scatter_bytes_);
      own.visit("sparse_bytes", sparse_bytes_);
      adopt();
    }
    inner_->visit_state(visitor);
  }

  void retire() override { inner_->retire(); }

 private:
  enum Choice : std::uint64_t { open, gather, scatter, sparse };
  static constexpr std::array<std::string_view, 4> names{"", "gather", "scatter_reduce", "sparse"};

  // Without a memory, what owners do not keep would be lost beside what a rank does not choose.
  bool sparse_suits_too() const {
    return parts_.memory->remembers() && sparse_suits(*parts_.codec, parts_.buckets).empty();
  }

  // REQUIRES sent_ of this rank for every bucket.
  void choose(Communicator& communicator) {
    communicator.all_reduce(std::span(sent_), ReduceOp::sum);
    for (double& bytes : sent_) bytes /= parts_.ranks;
    gather_bytes_ = static_cast<std::uint64_t>(std::accumulate(sent_.begin(), sent_.end(), 0.0));
    for (double& bytes : sent_) bytes /= parts_.ranks - 1;
    scatter_bytes_ = static_cast<std::uint64_t>(scatter_reduce_bytes(parts_, sent_));
    if (sparse_suits_too()) sparse_bytes_ = static_cast<std::uint64_t>(sparse_bytes(parts_, sent_));
    const bool balances = sparse_bytes_ > 0 && sparse_bytes_ < scatter_bytes_;
    const std::uint64_t least = balances ? sparse_bytes_ : scatter_bytes_;
    choice_ = static_cast<double>(least) > worth_it * static_cast<double>(gather_bytes_) ? gather
              : balances                                                                 ? sparse
                                                                                         : scatter;
    adopt();
  }

  // The memory goes along: all of them ask the same of it.
  void adopt() {
    if (choice_ > sparse || (choice_ == sparse && !sparse_suits_too())) {
      throw FileError(fmt::format("a checkpoint with auto/choice {}: there is none", choice_));
    }
    if (choice_ == open || choice_ == gather || inner_->name() == names[choice_]) return;
    inner_ = choice_ == scatter ? make_scatter_reduce(parts_) : make_sparse(parts_);
  }

  AggregatorParts parts_;
  bool linear_ = false;
  std::unique_ptr<Aggregator> inner_;
  std::vector<double> sent_;  // by bucket, in the first step
  std::size_t measured_ = 0;  // so many of them
  std::uint64_t choice_ = open;
  std::uint64_t gather_bytes_ = 0, scatter_bytes_ = 0, sparse_bytes_ = 0;  // a rank and step; 0: not to be had
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
