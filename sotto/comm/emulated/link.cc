#include "sotto/comm/emulated/link.h"

#include <algorithm>

#include "sotto/core/random.h"

namespace sotto {
namespace {

Clock::duration seconds(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

Clock::duration time_of(std::size_t bytes, double bits_per_second) {
  return bits_per_second > 0 ? seconds(8.0 * static_cast<double>(bytes) / bits_per_second) : Clock::duration::zero();
}

// How many spans of time are kept apart. Nearly all messages that are still to come began after older ones.
constexpr std::size_t remembered = 64;

// The rate of two links in series; 0: unlimited.
double slower(double one, double other) { return one > 0 && other > 0 ? std::min(one, other) : std::max(one, other); }

}  // namespace

Link::Link(const Links& links, int rank, int size)
    : seed_(links.seed),
      rank_(rank),
      egress_(links.rank(rank).egress),
      ingress_(links.rank(rank).ingress),
      outgoing_(static_cast<std::size_t>(size)),
      from_(outgoing_.size()) {
  for (int peer = 0; peer < size; ++peer) {
    const auto i = static_cast<std::size_t>(peer);
    outgoing_[i].shape = links.pair(rank, peer);
    from_[i] = slower(links.rank(peer).egress, links.pair(peer, rank).bits_per_second);
  }
}

Clock::time_point Link::send(int to, std::size_t bytes, Clock::time_point now) {
  const Lock lock(mutex_);
  Outgoing& link = outgoing_[static_cast<std::size_t>(to)];
  const auto begin = std::max(now, sent_);
  sent_ = begin + time_of(bytes, egress_);
  link.passed = std::max(sent_, std::max(begin, link.passed) + time_of(bytes, link.shape.bits_per_second));
  const ElementStream draws = element_stream(seed_, Purpose::jitter, static_cast<std::uint32_t>(rank_),
                                             link.messages >> 32, static_cast<std::uint32_t>(to));
  const double late = link.shape.jitter * draws.uniform(static_cast<std::uint32_t>(link.messages++));
  link.arrived = std::max(link.arrived, link.passed + seconds(link.shape.latency + late));
  return link.arrived;
}

Clock::time_point Link::receive(int from, std::size_t bytes, Clock::time_point arrived) {
  const Lock lock(mutex_);
  const auto begin = arrived - time_of(bytes, from_[static_cast<std::size_t>(from)]);
  return std::max(arrived, take_in(begin, time_of(bytes, ingress_)));
}

// Takes the first time that is free from `begin` on, and returns when it ends. So a short message that came while a
// long one was on its way delays that by its own time only.
Clock::time_point Link::take_in(Clock::time_point begin, Clock::duration needed) {
  auto next = std::ranges::find_if(busy_, [&](const Span& span) { return span.end >= begin; });
  const auto first = next;
  Span taken{begin, begin};
  for (; next != busy_.end() && (next->begin <= taken.end || next->begin - taken.end < needed); ++next) {
    needed -= std::max(Clock::duration::zero(), next->begin - taken.end);
    taken = {std::min(taken.begin, next->begin), next->end};
  }
  taken.end += needed;
  busy_.insert(busy_.erase(first, next), taken);
  if (busy_.size() > remembered) {  // joins the two oldest
    busy_[1].begin = busy_[0].begin;
    busy_.erase(busy_.begin());
  }
  return taken.end;
}

}  // namespace sotto
