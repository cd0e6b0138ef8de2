#pragma once

#include "sotto/aggregate/memory/bucket_vector.h"
#include "sotto/aggregate/memory/memory.h"
#include "sotto/kernels/vector.h"

namespace sotto {

// A memory of one vector. Between prepare() and settle() it is what is offered, otherwise the part that was not sent.
class Residual : public Memory {
 public:
  Residual(const MemoryParts& parts, std::string_view name) : held_(parts.buckets), name_(name) {}

  void settle(Bucket& prepared, Sent& sent) override { sent.add_to(prepared, -1.0F); }
  void hold(const Bucket& owed) override { kernels::add(owed.values, held_.beside(owed).values); }
  void visit_state(StateVisitor& visitor) override { held_.visit_state(visitor, name_); }

 protected:
  BucketVector held_;

 private:
  std::string_view name_;  // its name in checkpoints
};

}  // namespace sotto
