#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/layout.h"
#include "sotto/optim/optimiser.h"

namespace sotto {

// How gradients are grouped into exchanges.
struct Bucketing {
  bool layers = false;   // one bucket per module, with its tensors
  std::size_t most = 0;  // otherwise at most this many bytes of tensors per bucket; 0: one bucket for all

  std::string text() const;  // "layer", "whole" or the bytes; for checkpoints
};

// Parses "layer", "whole" or a size such as "25MB". ConfigError.
Bucketing read_buckets(std::string_view option, std::string_view text);

std::vector<BucketPlan> plan_buckets(const Layout& layout, const Bucketing& buckets);

// ConfigError if a tensor is cut into several buckets, and the optimiser works on whole tensors.
void require_whole_tensors(const Optimiser& optimiser, const Layout& layout, std::span<const BucketPlan> buckets);

}  // namespace sotto
