#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"
#include "sotto/core/state.h"
#include "sotto/core/table.h"

namespace sotto {

// What memories need to know about a step. Unlike a Key, it determines no random number.
struct StepContext {
  std::uint64_t number = 0;
  double rate = 0;                     // the learning rate; 0: unknown
  std::string_view what = "gradient";  // names the averaged vector in errors
};

// What a rank keeps of its gradients between steps: mostly the part that it has not sent yet. An aggregator owns it,
// because only the aggregator knows that a message arrived, and so may settle it:
//   p = prepare(g);  exchange p;  settle(p, sent)
// If the exchange fails, settle() is not called, and everything that was accumulated is still held.
class Memory {
 public:
  virtual ~Memory() = default;
  // Returns the vector to be sent in place of `gradient`. It is valid until settle(), and must not be changed. Called
  // once per step and bucket. `owed` is the residual of these gradients that the caller itself holds, such as the
  // residual of the chunk that it owns. When the learning rate changes, a memory in units of the rate rescales `owed`
  // along with its own vector.
  virtual Bucket prepare(const Bucket& gradient, const StepContext& step, std::span<float> owed) = 0;
  // `sent` is the part of `prepared` that all receivers kept.
  virtual void settle(Bucket& prepared, Sent& sent) = 0;
  // Turns the mean over all ranks into the vector by which they step. Called after the exchange. Only `momentum` with
  // the option `mean` changes the mean. That option is for all-reduced steps only. Therefore only all_reduce calls
  // this, and `auto` when it gathers a bucket whose values do not fit 16 bits.
  virtual void finish(Bucket& /*mean*/) {}
  // Takes over a residual of these gradients that somebody else held back, and sends it with the next ones.
  virtual void hold(const Bucket& owed) = 0;
  virtual bool remembers() const { return true; }  // false (holds nothing back): settle() need not be called
  virtual void visit_state(StateVisitor& visitor) = 0;
};

// What a memory is made for. It keeps no reference to these parts.
struct MemoryParts {
  std::span<const BucketPlan> buckets;
  int ranks = 1;
};

// A line of the table of memories.
struct MemoryEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  bool momentum;  // makes the momentum itself, so the optimiser must have none
  bool rate;      // needs StepContext::rate
  bool holds;     // holds back what was not sent
  AnyOptions (*options)();
  std::unique_ptr<Memory> (*make)(const AnyOptions& options, const MemoryParts& parts);
};
using MemorySpec = Spec<MemoryEntry>;
const Table<MemoryEntry>& memory_table();

// An empty spec makes a memory that holds nothing back.
std::unique_ptr<Memory> make_memory(const MemorySpec& memory, const MemoryParts& parts);

// One float for every element of every bucket, zero at first. Memories are made of such vectors.
class BucketVector {
 public:
  explicit BucketVector(std::span<const BucketPlan> buckets) {
    std::size_t size = 0;
    for (const BucketPlan& plan : buckets) {
      begins_.push_back(size);
      size += plan.range.size();
    }
    values_.resize(size);
  }

  // The floats that belong to this bucket, as a bucket of the same layout.
  Bucket of(const Bucket& bucket) {
    Bucket own = bucket;
    own.values = std::span(values_).subspan(begins_.at(bucket.index), bucket.values.size());
    return own;
  }
  void visit_state(StateVisitor& visitor, std::string_view name) { visitor.visit(name, values_); }

 private:
  std::vector<std::size_t> begins_;  // offset of each bucket
  std::vector<float> values_;
};

}  // namespace sotto
