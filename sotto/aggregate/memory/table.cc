#include "sotto/core/table.h"
#include "sotto/aggregate/memory/demo.h"
#include "sotto/aggregate/memory/ef.h"
#include "sotto/aggregate/memory/memory.h"
#include "sotto/aggregate/memory/memsgd.h"
#include "sotto/aggregate/memory/momentum.h"

namespace sotto {
namespace {

// No memory: what was not sent is lost, as in the papers without error feedback.
class NoMemory final : public Memory {
 public:
  std::string sentence() const override { return ""; }
  Bucket prepare(const Bucket& gradient, const Key& /*key*/) override { return gradient; }
  void settle(Bucket& /*prepared*/, const Sent& /*sent*/) override {}
  void hold(const Bucket& /*owed*/) override {}
  bool remembers() const override { return false; }
  void visit_state(StateVisitor& /*visitor*/) override {}
};

constexpr MemoryEntry table[] = {
    {"ef", "error feedback: what a codec left out is added to the next gradient",
     "Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019", false, false, help_error_feedback,
     make_error_feedback},
    {"momentum", "momentum correction: what a codec left out is of the momentum, which stops where it was sent",
     "Deep Gradient Compression: Lin et al., ICLR 2018", true, false, help_momentum, make_momentum},
    {"memsgd", "error feedback with the learning rate inside: what was held back keeps the rate of its step",
     "Stich, Cordonnier, Jaggi, NeurIPS 2018", false, true, help_memsgd, make_memsgd},
    {"demo", "decoupled momentum: what was sent is taken off a momentum of each rank's own",
     "DeMo: Peng, Quesnelle, Kingma, 2024", true, false, help_demo, make_demo},
};

}  // namespace

std::span<const MemoryEntry> memory_table() { return table; }

const MemoryEntry* memory_entry(std::string_view where, std::string_view sentence) {
  if (sentence.empty()) return nullptr;
  const Sentence parsed = parse_sentence(where, sentence);
  return &require_entry(memory_table(), "memory", parsed, parsed.calls.front());
}

std::unique_ptr<Memory> make_memory(std::string_view where, std::string_view sentence, const MemoryParts& parts) {
  const MemoryEntry* entry = memory_entry(where, sentence);
  if (entry == nullptr) return std::make_unique<NoMemory>();
  const Sentence parsed = parse_sentence(where, sentence);
  return entry->make(parsed, parsed.calls.front(), parts);
}

}  // namespace sotto
