#include "sotto/core/table.h"
#include "sotto/aggregate/memory/ef.h"
#include "sotto/aggregate/memory/memory.h"

namespace sotto {
namespace {

// No memory: what was not sent is lost, as in the papers without error feedback.
class NoMemory final : public Memory {
 public:
  Bucket prepare(const Bucket& gradient) override { return gradient; }
  void settle(Bucket& /*prepared*/, const Sent& /*sent*/) override {}
  bool remembers() const override { return false; }
  void visit_state(StateVisitor& /*visitor*/) override {}
};

constexpr MemoryEntry table[] = {
    {"ef", "error feedback: what a codec left out is added to the next gradient",
     "Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019", make_error_feedback},
};

}  // namespace

std::span<const MemoryEntry> memory_table() { return table; }

std::unique_ptr<Memory> make_memory(std::string_view where, std::string_view sentence,
                                    std::span<const BucketPlan> buckets) {
  if (sentence.empty()) return std::make_unique<NoMemory>();
  const Sentence parsed = parse_sentence(where, sentence);
  const Call& call = parsed.calls.front();
  return require_entry(memory_table(), "memory", parsed, call).make(parsed, call, buckets);
}

}  // namespace sotto
