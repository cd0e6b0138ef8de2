#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"
#include "sotto/core/sentence.h"
#include "sotto/core/state.h"

namespace sotto {

// What was kept of a bucket by everybody who had to receive it.
class Sent {
 public:
  virtual ~Sent() = default;
  // out += scale * what was sent.
  virtual void add_to(Bucket& out, float scale) const = 0;
};

// What this rank has not sent yet. An aggregator owns it, since only who knows that a message arrived may settle it:
//   p = prepare(g);  exchange p;  settle(p, sent)
// An exchange that fails is not settled: then everything that was accumulated is still here.
class Memory {
 public:
  virtual ~Memory() = default;
  // The vector to be sent in place of `gradient`: valid until settle(), and not to be changed.
  virtual Bucket prepare(const Bucket& gradient) = 0;
  virtual void settle(Bucket& prepared, const Sent& sent) = 0;
  virtual bool remembers() const { return true; }  // false: settle() need not be called
  virtual void visit_state(StateVisitor& visitor) = 0;
};

// A line of the table of memories.
struct MemoryEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  std::unique_ptr<Memory> (*make)(const Sentence& sentence, const Call& call, std::span<const BucketPlan> buckets);
};
std::span<const MemoryEntry> memory_table();

// From the first stage of a method: "ef", or "" for none. `where` names the flag in errors.
std::unique_ptr<Memory> make_memory(std::string_view where, std::string_view sentence,
                                    std::span<const BucketPlan> buckets);

}  // namespace sotto
