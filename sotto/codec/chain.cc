#include "sotto/codec/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sotto/codec/contract.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

std::string joined_sentence(const Stages& stages) {
  std::string sentence;
  const auto append = [&](const Stage* stage) {
    if (stage == nullptr) return;
    if (!sentence.empty()) sentence += " | ";
    sentence += stage->sentence();
  };
  append(stages.transform.get());
  append(stages.select.get());
  append(stages.quantise.get());
  append(stages.code.get());
  return sentence;
}

}  // namespace

Chain::Chain(Stages stages) : stages_(std::move(stages)), sentence_(joined_sentence(stages_)) {}

Contract Chain::contract(const Layout& layout) const {
  const std::size_t largest = plan(layout, {0, layout.size()}).largest;
  Contract contract{.linear = true, .input = Contract::Input::model};
  if (stages_.transform) contract = stages_.transform->contract(layout);
  if (stages_.select) {
    counts_.clear();
    for (const Slot& slot : slots_) counts_.push_back(slot.atoms.count);
    contract = compose(contract, stages_.select->contract(counts_));
  }
  const Contract quantise = stages_.quantise->contract(largest);
  // Without a stage before it the quantiser's own blocks are where parts may be cut.
  contract = stages_.transform || stages_.select ? compose(contract, quantise) : quantise;
  contract.linear = contract.linear && !stages_.code;
  return contract;
}

std::size_t Chain::max_bytes(const Layout& layout, Range part) const {
  return sizeof(Header) + plan(layout, part).max_body;
}

Chain::Plan Chain::plan(const Layout& layout, Range part) const {
  cut_pieces(layout, part, pieces_);
  Plan plan;
  slots_.clear();
  counts_.clear();
  for (const Piece& piece : pieces_) {
    const Atoms atoms = stages_.transform ? stages_.transform->atoms(layout, piece) : Atoms{piece.range.size(), 1};
    slots_.push_back({piece, atoms, plan.atoms, plan.rows, atoms.count, plan.atoms});
    counts_.push_back(atoms.count);
    plan.atoms += atoms.count;
    plan.rows += atoms.values();
  }
  limits_ = counts_;
  plan.most = stages_.select ? stages_.select->limits(counts_, limits_) : plan.atoms;

  // Pieces together cannot send more than `most` atoms, and each rounds up to whole bytes once.
  std::size_t packed = 0;
  std::size_t widest = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::size_t values = limits_[i] * slots_[i].atoms.width;
    plan.max_body += stages_.quantise->side_bytes(values);
    packed += stages_.quantise->packed_bytes(values);
    widest = std::max(widest, slots_[i].atoms.width);
    plan.largest = std::max(plan.largest, values);
  }
  plan.max_body += std::min(packed, stages_.quantise->packed_bytes(plan.most * widest) + slots_.size());
  if (stages_.select) plan.max_body += length_bytes + max_index_bytes(plan.most, plan.atoms);
  if (std::max({plan.max_body, plan.atoms, part.size()}) > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError(fmt::format("{} elements are too many for one message; use smaller buckets", part.size()));
  }
  return plan;
}

// What no message of this layout will exceed, however many atoms it selects.
void Chain::reserve(const Plan& plan) const {
  if (stages_.code) coded_.room(plan.max_body);
  if (!stages_.transform && !stages_.select) return;
  indices_.room(plan.most);
  values_.room(plan.largest);
  numbers_.room(plan.largest);
}

void Chain::throw_not_finite(const std::string& segment, const Key& key) {
  throw NumericError(fmt::format("{} is not finite at step {} on rank {}", segment, key.step, key.rank));
}

}  // namespace sotto
