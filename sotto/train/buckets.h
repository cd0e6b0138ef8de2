#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/layout.h"

namespace sotto {

// What is exchanged at once.
struct Bucketing {
  bool layers = false;   // the tensors of each module
  std::size_t most = 0;  // otherwise tensors of at most so many bytes together; 0: all

  std::string text() const;  // "layer", "whole" or the bytes: for checkpoints
};

// From "layer", "whole" or a size, as "25MB". ConfigError.
Bucketing read_buckets(std::string_view option, std::string_view text);

std::vector<BucketPlan> plan_buckets(const Layout& layout, const Bucketing& buckets);

}  // namespace sotto
