#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/core/layout.h"

namespace sotto {

// Which ranks are workers and servers. The first `servers` ranks serve; they train, too, unless they are dedicated.
struct ServerPlan {
  enum class Mode : std::uint8_t { sync, async, stale };

  Mode mode = Mode::sync;
  std::uint64_t bound = 0;  // stale: steps that a worker may be ahead of the slowest
  std::size_t quorum = 1;   // sync: workers whose gradients make an update
  bool carry = false;       // sync: a gradient that comes too late is added to the next update
  int servers = 1;
  bool dedicated = false;
  int ranks = 1;
  bool together = false;  // the steps of all workers together end a run, and fast ones make more of them

  int first_worker() const { return dedicated ? servers : 0; }
  bool trains(int rank) const { return rank >= first_worker(); }
  std::size_t workers() const { return static_cast<std::size_t>(ranks - first_worker()); }
  // Whether every worker gets every update, so that all have the same model.
  bool in_step() const { return mode == Mode::sync && quorum == workers(); }
  // The weight of a gradient in the vector that the optimiser gets.
  float share() const { return mode == Mode::sync ? 1.0F / static_cast<float>(quorum) : 1.0F; }
  // The share of the learning rate that an update gets. If each gradient makes an update, the updates of all workers
  // together make a step of the full rate. The gradients are not scaled instead, because many optimisers ignore their
  // size.
  double rate_share() const { return mode == Mode::sync ? 1.0 : 1.0 / static_cast<double>(workers()); }
};

// The buckets that one server owns. They stand in its own vector, one after the other.
class Shard {
 public:
  struct Part {
    std::uint16_t index = 0;  // of the bucket
    BucketPlan plan;
    Range own;  // its place in the server's vector
    Range whole() const { return {0, own.size()}; }
  };

  void add(std::size_t index, const BucketPlan& plan);

  std::span<const Part> parts() const { return parts_; }
  std::size_t size() const { return size_; }
  // This part of a server's vector.
  static Bucket bucket(std::vector<float>& values, const Part& part) {
    return {std::span(values).subspan(part.own.begin, part.own.size()), &part.plan.layout, part.index};
  }
  // Copy between `flat`, the vector of all buckets, and `own`, the server's.
  void gather(std::span<const float> flat, std::span<float> own) const;
  void scatter(std::span<const float> own, std::span<float> flat) const;

 private:
  std::vector<Part> parts_;
  std::size_t size_ = 0;
};

// Deals the buckets to `servers` servers: the largest first, each to the server that has least so far.
std::vector<Shard> share_out(std::span<const BucketPlan> buckets, std::size_t servers);

}  // namespace sotto
