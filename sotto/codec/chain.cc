#include "sotto/codec/chain.h"

#include <fmt/format.h>

#include <numeric>

#include "sotto/codec/stages.h"

namespace sotto {
namespace {

// The number of values per call of the quantiser, which sees each slice as if it were alone: about as many as a cache
// holds, in whole blocks whose symbols fill whole bytes.
std::size_t slice_for(const Quantise& quantise, std::size_t grain) {
  const std::size_t wanted = std::min<std::size_t>(16384, grain);
  const Contract contract = quantise.contract(wanted);
  const std::size_t step = std::lcm(contract.block, quantise.packing().group);
  return std::max<std::size_t>(wanted / step, 1) * step;
}

bool pools_units(const Quantise& quantise) {
  const auto* pooled = dynamic_cast<const PooledUnits*>(&quantise);
  return pooled != nullptr && pooled->pools();
}

bool has_one_block(const Quantise& quantise) {
  if (dynamic_cast<const WholeUnits*>(&quantise) != nullptr) return true;
  const Contract::Grain grain = quantise.contract(1).grain;
  return grain != Contract::Grain::element && grain != Contract::Grain::block;
}

}  // namespace

ChainParts::ChainParts(StageSpecs specs, Stages made, std::shared_ptr<ThreadPool> pool_)
    : stages(std::move(made)),
      traits{.stages = std::move(specs)},
      pool(std::move(pool_)),
      packing(stages.quantise->packing()),
      whole(dynamic_cast<const WholeUnits*>(stages.quantise.get())),
      agreed(dynamic_cast<AgreedNumbers*>(stages.quantise.get())),
      merged(dynamic_cast<MergedUnits*>(stages.quantise.get())),
      pools(pools_units(*stages.quantise)),
      one_block(has_one_block(*stages.quantise)),
      slice(slice_for(*stages.quantise, pool->grain())),
      stretch((pool->grain() + slice - 1) / slice * slice) {
  const auto use = [this](Stage* stage) {
    if (stage != nullptr) stage->use(pool);
  };
  use(stages.transform.get());
  use(stages.select.get());
  use(stages.within.get());
  use(stages.quantise.get());
  use(stages.code.get());
  traits.text = text_of(traits.stages);
  traits.additive = !stages.transform || stages.transform->traits().additive;
  // Rows of several ranks can be summed if the map is the same on every rank.
  traits.lists_atoms = stages.select.chooses() && !stages.within && traits.additive;
  traits.merges = merged != nullptr && merged->merges() && !stages.transform && !stages.select;
  if (linear() != nullptr) traits.linear_type = linear()->type();
}

ChainMessage::ChainMessage(std::shared_ptr<ChainParts> parts)
    : parts_(std::move(parts)), stages_(parts_->stages), pool_(*parts_->pool) {}

Contract ChainMessage::contract(const Layout& layout) {
  const Plan plan = this->plan(layout, {0, layout.size()});
  Contract contract{.linear = true, .input = Contract::Input::model};
  if (stages_.transform) contract = stages_.transform->contract(layout);
  if (stages_.select) {
    contract = compose(contract, stages_.select.contract(sizes_));
  }
  Contract quantise = stages_.quantise->contract(plan.largest);
  if (stages_.within) {
    sizes_.clear();
    for (const Slot& slot : slots_) {
      const bool dense = stages_.within.is_dense(layout.segments()[slot.piece.segment]);
      sizes_.push_back({slot.atoms.split, dense});
      sizes_.push_back({slot.atoms.width - slot.atoms.split, dense});
    }
    quantise = compose(stages_.within.contract(sizes_), quantise);
  }
  std::size_t atoms = 0;  // of the piece with the most atoms whose rows are products
  for (const Slot& slot : slots_) atoms = std::max(atoms, slot.atoms.split > 0 ? slot.atoms.count : 0);
  if (atoms > 0) quantise = of_products(quantise, atoms);
  // Without an earlier stage, parts may be cut at the quantiser's own blocks.
  contract = parts_->in_place() ? quantise : compose(contract, quantise);
  contract.linear = parts_->linear() != nullptr;
  return contract;
}

ChainMessage::Plan ChainMessage::plan(const Layout& layout, Range part) {
  cut_pieces(layout, part, pieces_);
  const std::size_t block = stages_.select.traits().block;
  Plan plan;
  slots_.clear();
  sizes_.clear();
  limits_.clear();
  for (const Piece& piece : pieces_) {
    const Atoms atoms = stages_.transform ? stages_.transform->atoms(layout, piece)
                                          : Atoms{.count = piece.range.size(), .first = piece.first};
    slots_.push_back({.piece = piece,
                      .atoms = atoms,
                      .first = plan.atoms,
                      .first_block = plan.blocks,
                      .blocks = (atoms.count + block - 1) / block,
                      .row = plan.rows,
                      .selected = atoms.count,
                      .selected_at = plan.atoms,
                      .value = parts_->in_place() ? piece.range.begin : plan.rows});
    const bool dense = stages_.select && stages_.select.is_dense(layout.segments()[piece.segment]);
    sizes_.push_back({atoms.count, dense, atoms.chunk});
    limits_.push_back(atoms.count);
    plan.atoms += atoms.count;
    plan.blocks += slots_.back().blocks;
    plan.rows += atoms.values();
  }
  plan.most_blocks = stages_.select ? stages_.select.limits(sizes_, limits_) : plan.atoms;
  plan.most = std::min(plan.atoms, plan.most_blocks * block);

  // All pieces together send at most `most` atoms, and each unit is rounded up to whole bytes once. If units are
  // wholes, only a bound for each unit is known.
  std::size_t packed = 0;
  std::size_t widest = 0;
  const auto add_units = [&](std::size_t count, std::size_t size) {
    plan.max_body += count * parts_->side_bytes(size);
    packed += count * parts_->packed_bytes(size);
    plan.units += count;
    const RunLimits runs = parts_->whole != nullptr ? parts_->whole->run_limits(size) : RunLimits{1, size};
    plan.runs.runs += count * runs.runs;
    plan.runs.symbols += count * runs.symbols;
    if (count > 0) plan.largest = std::max(plan.largest, size);
  };
  std::size_t pooled = 0;  // values of the only unit
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Atoms& atoms = slots_[i].atoms;
    const std::size_t most = std::min(atoms.count, limits_[i] * block);
    if (parts_->pools) {
      pooled += most;
    } else if (atoms.split > 0) {
      add_units(most, atoms.split);
      add_units(most, atoms.width - atoms.split);
    } else {
      add_units(1, most * atoms.width);
    }
    plan.values += most * atoms.width;
    widest = std::max(widest, atoms.width);
  }
  if (pooled > 0) add_units(1, pooled);
  plan.values = std::min(plan.values, plan.most * widest);
  plan.max_body +=
      parts_->whole != nullptr ? packed : std::min(packed, parts_->packed_bytes(plan.most * widest) + plan.units);
  if (parts_->selection_is_shared()) {
    plan.max_body += sizeof(Key::seed);
  } else if (stages_.select) {
    plan.max_body += length_bytes + max_index_bytes(plan.most_blocks, plan.blocks);
  }
  if (stages_.within) plan.max_body += length_bytes + max_index_bytes(plan.values, plan.values);
  if (std::max({plan.max_body, plan.atoms, plan.rows, part.size()}) > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError(
        fmt::format("{} elements are too many for one message of less than 4 GiB; cut them into parts", part.size()));
  }
  return plan;
}

// Allocates for any message of this layout, however many atoms it selects.
void ChainMessage::reserve_message(const Plan& plan) {
  units_.reserve(plan.units);
  cuts_.reserve(plan.values / parts_->stretch + 2);
  if (stages_.code) {
    coded_.room(plan.max_body);
    runs_.reserve(plan.runs.runs + 1);
    stages_.code->reserve(std::max(plan.runs.symbols, plan.max_body));  // a symbol may be a byte, or a bit
  }
  if (parts_->in_place()) return;
  if (stages_.select) room_for_blocks(plan);
  indices_.room(plan.most);
  atoms_.room(plan.most);
  values_.room(plan.values);
  if (parts_->selection_is_shared()) reserve_selection(plan);
  if (!stages_.within) return;
  within_.room(plan.values);
  kept_values_.room(plan.values);
}

void ChainMessage::reserve_selection(const Plan& plan) {
  const std::size_t groups = stages_.within ? plan.units : slots_.size();
  groups_.reserve(groups);
  counts_.reserve(groups);
  stages_.select.reserve(plan.atoms, slots_.size());
  if (stages_.select.traits().scales) scales_.room(plan.most_blocks);
}

// Builds the units of the selected atoms. REQUIRES `selected` and `value` of every slot.
void ChainMessage::cut_units() {
  units_.clear();
  if (parts_->pools) {
    const std::size_t count = values_in_slots();
    if (count > 0) units_.push_back({0, 0, count, 0, count, 0});
    return;
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    std::size_t at = slot.value;
    const auto add = [&](std::size_t count) {
      units_.push_back({i, at, count, at, count, 0});
      at += count;
    };
    if (slot.atoms.split == 0) {
      add(slot.values());
      continue;
    }
    for (std::size_t j = 0; j < slot.selected; ++j) {
      add(slot.atoms.split);
      add(slot.atoms.width - slot.atoms.split);
    }
  }
}

// Stretches are cut between units, and within a unit at multiples of `slice`. Each has at least `parts_->stretch`
// values, except the last.
void ChainMessage::cut_stretches(std::size_t slice) {
  cuts_.clear();
  std::size_t room = 0;  // values that the current stretch still needs
  StretchStart cut;
  for (; cut.unit < units_.size(); ++cut.unit) {
    const std::size_t count = units_[cut.unit].kept;
    for (cut.begin = 0; cut.begin < count;) {
      if (room == 0) {
        cuts_.push_back(cut);
        room = parts_->stretch;
      }
      const std::size_t size = std::min(count - cut.begin, (room + slice - 1) / slice * slice);
      cut.begin += size;
      room -= std::min(room, size);
    }
    cut.side += parts_->side_bytes(count);
    cut.packed += units_[cut.unit].packed;
  }
  cut.begin = 0;
  cuts_.push_back(cut);
}

std::size_t ChainMessage::values_in_slots() const {
  return slots_.empty() ? 0 : slots_.back().value + slots_.back().values();
}

void Chain::visit_state(StateVisitor& visitor) {
  if (parts_->stages.transform) parts_->stages.transform->visit_state(visitor);
  parts_->stages.quantise->visit_state(visitor);
}

void ChainMessage::throw_not_finite(const std::string& segment, const Key& key) {
  throw NumericError(fmt::format("{} is not finite{}", segment, where(key)));
}

std::string where(const Key& key) { return key.alone ? "" : fmt::format(" at step {} on rank {}", key.step, key.rank); }

}  // namespace sotto
