#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sotto/optim/optimiser.h"
#include "sotto/optim/parameter_groups.h"

namespace sotto {
namespace {

// The optimiser of a group. Its vector has only the group's tensors, one after the other.
struct Member {
  std::string name;
  std::unique_ptr<Optimiser> optimiser;
  double lr_scale = 1;
};

// Consecutive tensors of one group, with the padding after each.
struct Run {
  Range range;            // of the flat vector
  std::size_t own = 0;    // where it begins in the group's vector
  std::size_t group = 0;  // afterwards: the place of its member
};

class Grouped final : public Optimiser {
 public:
  Grouped(std::vector<Member> members, std::vector<Run> runs, std::size_t size)
      : members_(std::move(members)), runs_(std::move(runs)), size_(size) {}

  std::uint64_t dense_steps() const override {
    std::uint64_t most = 0;
    for (const Member& member : members_) most = std::max(most, member.optimiser->dense_steps());
    return most;
  }
  void begin_step(std::uint64_t step) override {
    for (const Member& member : members_) member.optimiser->begin_step(step);
  }
  void take_shares(double share) override {
    for (const Member& member : members_) member.optimiser->take_shares(share);
  }
  bool offers_gradient() const override { return members_.front().optimiser->offers_gradient(); }

  std::span<float> offer(std::span<float> gradient, std::size_t begin) override {
    require_stretch(gradient, gradient, begin, size_);
    each(begin, gradient.size(), [&](Member& member, std::size_t from, std::size_t count, std::size_t own) {
      const auto part = gradient.subspan(from, count);
      const auto offered = member.optimiser->offer(part, own);
      if (offered.data() != part.data()) std::ranges::copy(offered, part.begin());
    });
    return gradient;
  }
  bool offer_makes_buffers() const override {  // a group without momentum has none
    return std::ranges::any_of(members_, [](const Member& m) { return m.optimiser->offer_makes_buffers(); });
  }

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, size_);
    each(begin, mean.size(), [&](Member& member, std::size_t from, std::size_t count, std::size_t own) {
      member.optimiser->apply(parameters.subspan(from, count), mean.subspan(from, count), own, lr * member.lr_scale);
    });
  }

  bool needs_whole_tensors() const override { return members_.front().optimiser->needs_whole_tensors(); }
  void visit_state(StateVisitor& visitor) override {
    for (const Member& member : members_) {
      ScopedState own(visitor, member.name);
      member.optimiser->visit_state(own);
    }
  }
  void visit_buffers(StateVisitor& visitor) override {
    for (const Member& member : members_) member.optimiser->visit_buffers(visitor);
  }
  bool may_reset_buffers() const override {
    return std::ranges::all_of(members_, [](const Member& m) { return m.optimiser->may_reset_buffers(); });
  }

 private:
  // Calls f(member, where it begins in the stretch, its length, where it begins in the member's vector) for each part
  // of the stretch.
  template <class F>
  void each(std::size_t begin, std::size_t size, F&& f) {
    auto run = std::ranges::partition_point(runs_, [&](const Run& r) { return r.range.end <= begin; });
    for (; run != runs_.end() && run->range.begin < begin + size; ++run) {
      const std::size_t from = std::max(run->range.begin, begin), to = std::min(run->range.end, begin + size);
      f(members_[run->group], from - begin, to - from, run->own + (from - run->range.begin));
    }
  }

  std::vector<Member> members_;
  std::vector<Run> runs_;
  std::size_t size_;
};

}  // namespace

std::unique_ptr<Optimiser> make_grouped(std::string_view option, std::span<const ParameterGroup> groups,
                                        const OptimiserSpec& all, const Layout& layout) {
  const std::vector<std::size_t> group_of = groups_of_tensors(option, groups, layout);
  std::vector<std::vector<Segment>> tensors(groups.size() + 1);  // of each group, with offsets in its own vector
  std::vector<std::size_t> sizes(tensors.size());
  std::vector<Run> runs;
  for (std::size_t s = 0; s < group_of.size(); ++s) {
    const std::size_t group = group_of[s];
    const Range range = layout.slice_range(s, s + 1);
    if (!runs.empty() && runs.back().group == group) {
      runs.back().range.end = range.end;
    } else {
      runs.push_back({range, sizes[group], group});
    }
    Segment own = layout.segments()[s];
    own.offset = sizes[group];
    tensors[group].push_back(std::move(own));
    sizes[group] += range.size();
  }
  std::vector<Member> members;
  std::vector<std::size_t> place(tensors.size());
  for (std::size_t g = 0; g < tensors.size(); ++g) {
    if (tensors[g].empty()) continue;  // every tensor has a group
    const bool other = g == groups.size();
    place[g] = members.size();
    members.push_back({other ? "others" : fmt::format("group/{}", g),
                       make_optimiser(other ? all : groups[g].optimiser, Layout(std::move(tensors[g]), sizes[g])),
                       other ? 1 : groups[g].lr_scale});
  }
  for (Run& run : runs) run.group = place[run.group];
  return std::make_unique<Grouped>(std::move(members), std::move(runs), layout.size());
}

}  // namespace sotto
