#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

namespace sotto {

// Memory of messages as c10d takes it, in tensors: the caller's own, but for groups that are polled. Those cannot give
// a message up, so its memory must be one that may stay after a failure.
class C10dMemory {
 public:
  explicit C10dMemory(bool polled) : polled_(polled), tensor_(1) {}
  bool polled() const { return polled_; }

  // For a receive. What comes is in `room` only after take().
  std::vector<at::Tensor>& of_room(std::span<std::byte> room);
  // For a send: it holds the data.
  std::vector<at::Tensor>& of_data(std::span<const std::byte> data);
  // The memory of the last message, unless that is the caller's.
  at::Tensor own() const { return polled_ ? tensor_[0] : at::Tensor(); }
  // Copies what came into a message's own() memory; nothing where that is undefined.
  static void take(const at::Tensor& own, std::span<std::byte> room);

 private:
  std::vector<at::Tensor>& around(std::span<const std::byte> data);

  bool polled_;
  std::vector<at::Tensor> tensor_;
};

}  // namespace sotto
