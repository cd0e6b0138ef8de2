#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sotto/codec/codec.h"

namespace sotto {

// Messages of one codec that are open at the same time, by number. Each keeps its buffers from step to step.
class OpenedMessages {
 public:
  explicit OpenedMessages(std::shared_ptr<const Codec> codec) : codec_(std::move(codec)) {}

  Opened& operator[](std::size_t number) {
    while (opened_.size() <= number) opened_.push_back(codec_->make_opened());
    return *opened_[number];
  }
  // REQUIRES that at least `count` messages were made by operator[].
  std::span<const std::unique_ptr<Opened>> first(std::size_t count) const { return std::span(opened_).first(count); }

 private:
  std::shared_ptr<const Codec> codec_;
  std::vector<std::unique_ptr<Opened>> opened_;
};

}  // namespace sotto
