#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"

namespace sotto {

// How gradients are averaged from a step on.
struct Phase {
  std::uint64_t first_step = 0;
  std::string method;  // a whole sentence: "ef | topk(0.01)"
  std::string aggregator = "auto";
};

// Aggregators that follow one another, as the phases of a schedule say. A memory goes over from one to the next; other
// state (warm starts, choices of `auto`) begins anew. Between phases it allocates.
class Phased final : public Aggregator {
 public:
  // Phases by ascending first step, the first of them at 0; `where` and the rest as for make_aggregator(). ConfigError
  // when a method is none, also one of a later phase, and when a phase has not the memory of the one before: what that
  // holds would be lost.
  Phased(std::string_view where, std::vector<Phase> phases, std::vector<BucketPlan> buckets, int rank, int ranks,
         std::shared_ptr<Workers> workers);

  // The next step is this one; its phase takes over, where it is another one. Before average() and visit_state(), which
  // see that phase. REQUIRES steps that do not go back.
  void enter(std::uint64_t step);
  const Phase& phase() const { return phases_[current_]; }

  std::string_view name() const override { return aggregator_->name(); }
  std::string remark() const override { return aggregator_->remark(); }
  void average(Bucket& bucket, const Key& key, Communicator& communicator, Phases& phases) override {
    aggregator_->average(bucket, key, communicator, phases);
  }
  void visit_state(StateVisitor& visitor) override { aggregator_->visit_state(visitor); }
  void retire() override { aggregator_->retire(); }

 private:
  std::unique_ptr<Aggregator> make(std::size_t phase) const;
  void check_memory(std::size_t phase) const;

  std::string where_;
  std::vector<Phase> phases_;
  std::vector<BucketPlan> buckets_;
  int rank_, ranks_;
  std::shared_ptr<Workers> workers_;
  std::size_t current_ = 0;
  std::unique_ptr<Aggregator> aggregator_;
};

// Every phase with every option named, as it stands in checkpoints; the canonical method alone where there is one.
std::string canonical_phases(std::string_view where, const std::vector<Phase>& phases);

}  // namespace sotto
