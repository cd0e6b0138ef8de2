#include "sotto/core/table.h"
#include "sotto/aggregate/memory/memory.h"
#include "sotto/aggregate/memory/momentum.h"
#include "sotto/aggregate/memory/residual.h"

namespace sotto {
namespace {

// No memory: what was not sent is lost, as in the papers without error feedback.
class NoMemory final : public Memory {
 public:
  Bucket prepare(const Bucket& gradient, const StepContext& /*step*/, std::span<float> /*owed*/) override {
    return gradient;
  }
  void settle(Bucket& /*prepared*/, Sent& /*sent*/) override {}
  void hold(const Bucket& /*owed*/) override {}
  bool remembers() const override { return false; }
  void visit_state(StateVisitor& /*visitor*/) override {}
};

constexpr MemoryEntry entries[] = {
    {"ef", "error feedback: what a codec left out is added to the next gradient",
     "Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019", false, false, true,
     Made<make_error_feedback>::options, Made<make_error_feedback>::make},
    {"momentum",
     "momentum correction: each rank makes its momentum before it sends; the momentum of an element stops when it is "
     "sent",
     "Deep Gradient Compression: Lin et al., ICLR 2018", true, false, true, Made<make_momentum>::options,
     Made<make_momentum>::make},
    {"memsgd", "error feedback with the learning rate inside: what was held back keeps the rate of its step",
     "Stich, Cordonnier, Jaggi, NeurIPS 2018", false, true, true, Made<make_memsgd>::options, Made<make_memsgd>::make},
    {"demo", "decoupled momentum: each rank has its own momentum, from which it subtracts what it sends",
     "DeMo: Peng, Quesnelle, Kingma, 2024", true, false, true, Made<make_demo>::options, Made<make_demo>::make},
    {"velocity", "each rank sends its momentum in place of its gradient; what a codec leaves out is not held back",
     "none known; Signum and 1-bit Adam also send momenta", true, false, false, Made<make_velocity>::options,
     Made<make_velocity>::make},
};
constexpr Table<MemoryEntry> table("memory", entries);

}  // namespace

const Table<MemoryEntry>& memory_table() { return table; }

std::unique_ptr<Memory> make_memory(const MemorySpec& memory, const MemoryParts& parts) {
  if (!memory) return std::make_unique<NoMemory>();
  return memory.entry->make(memory.options, parts);
}

}  // namespace sotto
